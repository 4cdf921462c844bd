"""Run the notebooks from top to bottom and store them with their outputs.

Run ``python scripts/run_notebooks.py`` after a change of a notebook, of called code or of a
released table. With names, such as ``01_query_reranked``, only those notebooks run. Some notebooks
need the table `analog-nasbench`, which is not part of the project: pip downloads it, and without
a connection these notebooks are skipped. Outputs contain no data of the machine: no timings, no
paths, no state.
"""

from __future__ import annotations

import argparse
import base64
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

from rebench.errors import MissingDataError, UnknownNameError
from rebench.nats.analog import NAME, fetch_analog

PROJECT = Path(__file__).parents[1]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
# The figures are lines and a few colours: a palette makes them a third as large.
_COLOURS = 128


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in `folder` with a new kernel that imports this project; keep its outputs."""
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
    """Convert a PNG (base64) to a PNG with a palette."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        page = Image.new("RGB", image.size, "white")
        page.paste(image, mask=image.convert("RGBA").getchannel("A"))
    packed = io.BytesIO()
    page.quantize(_COLOURS).save(packed, "PNG", optimize=True)
    return base64.b64encode(packed.getvalue()).decode()


def run_stored(path: Path, analog: Path | None = None, shorter: str = "") -> NotebookNode:
    """Run a stored notebook and return it.

    Args:
        path: the notebook.
        analog: file with the table `analog-nasbench`; if None, pip downloads it if it is needed.
        shorter: lines of settings; each replaces the line of the first code cell that sets the
            same names.
    """
    notebook = nbformat.read(path, as_version=4)
    for line in shorter.splitlines():
        names, _, _ = line.partition("=")
        source, times = re.subn(rf"(?m)^{names}=.*$", line, notebook.cells[1].source)
        assert times == 1, f"{path.name} does not set {names}"
        notebook.cells[1].source = source
    with tempfile.TemporaryDirectory() as folder:
        if analog is not None:
            (Path(folder) / f"{NAME}.parquet").symlink_to(analog.resolve())
        elif asks_analog(path):
            fetch_analog(Path(folder))
        run(notebook, Path(folder))
    return notebook


def asks_analog(path: Path) -> bool:
    """Return whether a notebook opens a recipe of `analog-nasbench`."""
    return f"{NAME}@" in path.read_text()


def named(name: str) -> Path:
    """Return the notebook with this name (with or without suffix) or path."""
    for path in NOTEBOOKS:
        if name in (path.stem, path.name) or Path(name).resolve() == path.resolve():
            return path
    raise UnknownNameError("notebook", name, [path.stem for path in NOTEBOOKS])


def main(words: Sequence[str] | None = None) -> None:
    """Run the named notebooks, or all that can be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="its name or path")
    chosen = parser.parse_args(words)
    try:
        paths = [named(name) for name in chosen.notebooks] or NOTEBOOKS
    except UnknownNameError as error:
        parser.exit(2, f"{error}\n")
    for path in paths:
        try:
            notebook = run_stored(path)
        except MissingDataError as error:
            print(f"{path.name}: skipped, because {NAME} is missing: {error}")
            continue
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
