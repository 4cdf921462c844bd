"""The command line: thin commands over the library, one module per group of commands."""

from rebench.cli.app import main

__all__ = ["main"]
