"""Write the pages of results: ``python -m experiments.findings [OPTIONS]``.

The templates (``*.md.jinja``) next to this file contain the text. Every number in them is a call of
a function of `small`, `full_size` or `algorithms`. Without options, the pages in
`docs/explanation` and the figures in `docs/assets` are written again. ``--check`` writes nothing:
it fails if a stored page differs. ``--analog TABLE`` measures the table of
``rebench table fetch analog-nasbench`` first and keeps its numbers in `stored.json`; it also counts
the records with a commit that git does not know. ``--order`` runs the search algorithms on
`mini-all` first (three minutes) and keeps their agreement there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import jinja2

from experiments.findings import algorithms, full_size, small
from experiments.findings.estimate import Estimate
from experiments.findings.figures import draw_claims, draw_procedures, draw_seeds
from experiments.surface.decided import order_of_algorithms
from rebench.printable import number
from rebench.report.figures.style import Drawing
from rebench.tables.opening import read_rows, released_tables
from rebench.tables.release import release_of

__all__ = ["PAGES", "filled", "main"]

_HERE: Final = Path(__file__).parent
_DOCS: Final = _HERE.parents[1] / "docs"
_NAMES: Final = ("findings", "findings-details", "noise", "algorithms")
PAGES: Final = {name: _DOCS / "explanation" / f"{name}.md" for name in _NAMES}
_FIGURES: Final = {
    "claims": draw_claims,
    "noise-seeds": draw_seeds,
    "noise-procedures": draw_procedures,
}
# The number of intervals on the page, before they are counted.
_COUNT: Final = "@number of intervals@"
_INTERVAL: Final = re.compile(r"\(-?\d+\.\d+ to -?\d+\.\d+\)")


def filled(template: str, **more: Any) -> str:
    """Return a template of this folder, or a text, with its numbers; `more` are further names."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - pages are Markdown, and the templates are ours
    )
    for module in (small, full_size, algorithms):
        environment.globals |= {name: getattr(module, name) for name in module.__all__}
    stored = json.loads(full_size.STORED.read_text())
    environment.globals |= more | {"number": number, "stored": stored, "n_intervals": _COUNT}
    named = template in environment.list_templates()
    page = environment.get_template(template) if named else environment.from_string(template)
    text = page.render()
    return text.replace(_COUNT, str(len(_INTERVAL.findall(text))))


def _shown(value: object) -> object:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if isinstance(value, Estimate) else value


def _lost_records() -> int:
    """Return how many trials of `mini` and `mini-decay10x` have a commit unknown to git."""
    lost = 0
    for name in ("mini", "mini-decay10x"):
        rows = read_rows(name)
        trials = rows[rows["split"] == "ori-test"]["environment"].value_counts()
        for environment, count in trials.items():
            [commit] = re.findall(r"\((\w+)\)", str(environment))
            asked = ["git", "cat-file", "-e", commit]
            known = subprocess.run(asked, cwd=_HERE, check=False, stderr=subprocess.DEVNULL)  # noqa: S603 - a commit's digits, from our own tables
            lost += count if known.returncode else 0
    return int(lost)


def _order() -> dict[str, Any]:
    """Return the verdict of F3.3, with the digest of the records that it was measured on."""
    about = release_of(released_tables()["mini-all"])
    digest = None if about is None else about.records_sha256
    return {**order_of_algorithms("mini-all"), "records_sha256": digest}


def _store(**numbers: Any) -> None:
    kept = json.loads(full_size.STORED.read_text()) | numbers
    full_size.STORED.write_text(json.dumps(kept, indent=1) + "\n")


def main(words: list[str]) -> int:
    """Run the command line; return 1 if a stored page differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a stored page differs")
    parser.add_argument("--analog", type=Path, help="Parquet file of analog-nasbench")
    parser.add_argument("--order", action="store_true", help="run the searches of F3.3 again")
    given = parser.parse_args(words)
    if given.order:
        _store(order=_order())
    if given.analog is not None:
        _store(
            retrained=full_size.measure_retrained(given.analog),
            records_without_commit=_lost_records(),
            jackknife_width=small.jackknife_width(120, 3),
        )
    pages = {path: filled(f"{name}.md.jinja") for name, path in PAGES.items()}
    if given.check:
        differ = [path for path, text in pages.items() if path.read_text("utf-8") != text]
        for path in differ:
            sys.stderr.write(f"{path} differs from its template: run python -m {__package__}\n")
        return int(bool(differ))
    for path, text in pages.items():
        path.write_text(text, "utf-8")
    for name, draw in _FIGURES.items():
        figure: Drawing = draw()
        figure.save(_DOCS / "assets" / name, formats=("svg",))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
