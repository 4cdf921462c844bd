"""Figures for papers: drawn from tables, colour-blind safe, with their data saved beside them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
