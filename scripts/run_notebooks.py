"""Run the notebooks from top to bottom and store them with their outputs.

Run: ``python scripts/run_notebooks.py``, after a change of a notebook, of what it calls or of the
released table; with names of notebooks, such as ``01_query_reranked``, only those. Notebook 06 asks
the published table, which does not come with the project: it is run with ``--published FILE``, a
CSV file of published means, and left as it is without. Outputs hold nothing of this machine: no
timings, no paths, no state.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

from rebench.errors import UnknownNameError

PROJECT = Path(__file__).parents[1]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
# What a notebook calls the published table, to be found in the folder that it runs in.
PUBLISHED = "published.csv"
# The figures are lines and a few colours: a palette makes them a third as large.
_COLOURS = 128


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in `folder` by a fresh kernel that imports this project; keep its outputs."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "IPYTHONDIR": home,
        }
        client = NotebookClient(
            notebook,
            timeout=900,
            startup_timeout=300,
            kernel_name="python3",
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=environment)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = small(data["image/png"])


def small(png: str) -> str:
    """A PNG (base64) as one with a palette."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        page = Image.new("RGB", image.size, "white")
        page.paste(image, mask=image.convert("RGBA").getchannel("A"))
    packed = io.BytesIO()
    page.quantize(_COLOURS).save(packed, "PNG", optimize=True)
    return base64.b64encode(packed.getvalue()).decode()


def run_stored(path: Path, published: Path | None = None, shorter: str = "") -> NotebookNode:
    """Run a stored notebook and return it; `published` and its digest lie beside it.

    Each line of `shorter` takes the place of that which sets the same names.
    """
    notebook = nbformat.read(path, as_version=4)
    for line in shorter.splitlines():
        names, _, _ = line.partition("=")
        source, times = re.subn(rf"(?m)^{names}=.*$", line, notebook.cells[1].source)
        assert times == 1, f"{path.name} does not set {names}"
        notebook.cells[1].source = source
    with tempfile.TemporaryDirectory() as folder:
        if published is not None:
            (Path(folder) / PUBLISHED).symlink_to(published.resolve())
            digest = hashlib.sha256(published.read_bytes()).hexdigest()
            (Path(folder) / f"{PUBLISHED}.sha256").write_text(f"{digest}  {PUBLISHED}\n")
        run(notebook, Path(folder))
    return notebook


def asks_published(path: Path) -> bool:
    """Whether a notebook needs the published table."""
    return PUBLISHED in path.read_text()


def named(name: str) -> Path:
    """Return the notebook of this name, with or without suffix, or at this path."""
    for path in NOTEBOOKS:
        if name in (path.stem, path.name) or Path(name).resolve() == path.resolve():
            return path
    raise UnknownNameError("notebook", name, [path.stem for path in NOTEBOOKS])


def main(words: Sequence[str] | None = None) -> None:
    """Run the named notebooks, or all that can be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="its name or path")
    parser.add_argument("--published", type=Path, help="a CSV file of published means")
    chosen = parser.parse_args(words)
    try:
        paths = [named(name) for name in chosen.notebooks] or NOTEBOOKS
    except UnknownNameError as error:
        parser.exit(2, f"{error}\n")
    for path in paths:
        if asks_published(path) and chosen.published is None:
            print(f"{path.name}: left as it is; it needs --published FILE")
            continue
        nbformat.write(run_stored(path, chosen.published), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
