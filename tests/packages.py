"""Installation of a small package into a folder: its module, and metadata with entry points."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, module: str, source: str, group: str, **entries: str) -> None:
    """Put `module` and metadata into `folder`; announce `entries` (name -> value) in `group`."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    named = f"Name: {module.replace('_', '-')}\n"
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\n{named}Version: 1.0\n")
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
