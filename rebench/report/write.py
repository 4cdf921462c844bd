"""The page as files: report.html (self-contained), report.md, and the figures with their data."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rebench.analysis import Study
from rebench.analysis.surface_answers import SurfaceAnswers
from rebench.errors import StoreError
from rebench.report.blocks import Block, Code, Heading
from rebench.report.content import blocks_of
from rebench.report.figures.surface import draw_moves
from rebench.report.surface_page import surface_blocks
from rebench.runs import write_atomically

__all__ = ["Written", "write_report", "write_surface"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a report went."""

    html: Path
    markdown: Path
    figures: Path


def write_report(
    study: Study,
    folder: Path,
    *,
    surfaces: Sequence[SurfaceAnswers] = (),
) -> Written:
    """Write a study's report into `folder`; what an earlier one left there is replaced.

    The page has what the learning-rate surfaces say that the run holds.
    """
    written = Written(
        html=folder / "report.html", markdown=folder / "report.md", figures=folder / "figures"
    )
    try:
        written.figures.mkdir(parents=True, exist_ok=True)
        blocks = blocks_of(study, written.figures, surfaces)
        for found in study.rerankings:
            name = re.sub(r"[^\w.=-]+", "_", f"{found.dataset}-{found.after.name}").strip("_")
            found.curve.to_csv(folder / f"tau-{name}.csv", index=False)
        write_atomically(written.markdown, _markdown(blocks).encode())
        write_atomically(written.html, _html(blocks).encode())
    except OSError as error:
        raise StoreError(f"cannot write the report into {folder}: {error}") from error
    return written


def write_surface(answers: SurfaceAnswers, name: str, folder: Path) -> None:
    """Write the page about a learning-rate surface, the table called `name`, into `folder`."""
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        blocks = [
            Heading("A learning-rate surface: what a cell's own rate is worth", 1),
            *surface_blocks(answers, folder / "figures"),
            Heading("Again", 3),
            Code(f"rebench surface {shlex.quote(name)} --out {shlex.quote(str(folder))}"),
        ]
        draw_moves(answers).save(folder / "figures" / "moves")
        write_atomically(folder / "surface.md", _markdown(blocks).encode())
        write_atomically(folder / "surface.html", _html(blocks).encode())
    except OSError as error:
        raise StoreError(f"cannot write the page into {folder}: {error}") from error


def _markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.to_markdown() for block in blocks) + "\n"


def _html(blocks: Sequence[Block]) -> str:
    titles = [block for block in blocks if isinstance(block, Heading)]
    contents = "".join(
        f'<a href="#{heading.anchor}">{heading.safe_text}</a>'
        for heading in titles
        if heading.level == 2
    )
    body = "\n".join(block.to_html() for block in blocks)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        # Whatever a table or a name holds, this page asks no host for anything.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{titles[0].safe_text}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><nav>{contents}</nav><main>\n{body}\n</main></body></html>\n"
    )


_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5b6472;--line:#e3e6eb;--paper:#fff;
--wash:#f6f7f9;--shade:#0003;--blue:#0072b2;--orange:#d55e00;--code:#1d2430}
@media screen and (prefers-color-scheme:dark){
:root{--ink:#e4e8ee;--soft:#a7b0bd;--line:#39424f;--paper:#171b22;--wash:#1f252e;--blue:#56b4e9;
--shade:#fff5;--orange:#e69f00;--code:#0e1116}
figure img{filter:invert(1) hue-rotate(180deg);mix-blend-mode:screen}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--wash);color:var(--ink);font:15px/1.55 system-ui,-apple-system,
"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:62rem;margin:0 auto;background:var(--paper);padding:2.5rem 3rem 4rem;
border:1px solid var(--line);border-top:0}
nav{position:sticky;top:0;z-index:1;display:flex;overflow-x:auto;white-space:nowrap;gap:1.1rem;
padding:.55rem max(1.5rem,calc(50vw - 28rem));background:var(--code);font-size:12.5px}
nav a{color:#d9dee7;text-decoration:none}
nav a:hover{color:#fff;text-decoration:underline}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .5rem;letter-spacing:-.01em;text-wrap:balance}
.subtitle{color:var(--soft);font-size:.9rem;margin:0 0 1.4rem}
h2{font-size:1.2rem;margin:2.6rem 0 .8rem;padding-top:1.1rem;border-top:1px solid var(--line);
scroll-margin-top:3rem}
p,ul{max-width:48rem;color:var(--ink)}
ul{padding-left:1.1rem}
li{margin:.3rem 0}
.callout{border-left:4px solid var(--blue);background:var(--wash);padding:.7rem 1rem;margin:.6rem 0;
border-radius:0 6px 6px 0}
.callout b{display:block;font-size:.95rem}
.callout span{color:var(--soft)}
.callout.moved{border-color:var(--orange)}
figure{margin:1.2rem 0}
figure img{display:block;max-width:100%;height:auto;margin:0 auto}
figcaption{color:var(--soft);font-size:.86rem;margin:.5rem auto 0;max-width:48rem}
.scroll{overflow-x:auto;margin:1rem 0;background:
linear-gradient(90deg,var(--paper) 40%,transparent) left/3rem 100% no-repeat local,
linear-gradient(-90deg,var(--paper) 40%,transparent) right/3rem 100% no-repeat local,
linear-gradient(90deg,var(--shade),transparent) left/.8rem 100% no-repeat scroll,
linear-gradient(-90deg,var(--shade),transparent) right/.8rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.84rem;font-variant-numeric:tabular-nums;min-width:50%}
th{text-align:left;font-weight:600;color:var(--soft);border-bottom:2px solid var(--line);
padding:.3rem .7rem .3rem 0;vertical-align:bottom}
td{white-space:nowrap}
td{border-bottom:1px solid var(--line);padding:.28rem .7rem .28rem 0;vertical-align:top}
.n{text-align:right}
.wrap td{white-space:normal;min-width:6rem}
tbody tr:hover{background:var(--wash)}
details{border:1px solid var(--line);border-radius:6px;margin:.6rem 0;padding:0 1rem}
summary{cursor:pointer;padding:.55rem 0;font-weight:600;font-size:.92rem}
pre{background:var(--code);color:#e8ecf2;padding:.9rem 1.1rem;border-radius:6px;overflow-x:auto;
font:13px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
@media(max-width:50rem){main{padding:1.5rem 1rem}}
@media print{nav{display:none}body{background:#fff}main{border:0;max-width:none;padding:0}
h2,figure,table{break-inside:avoid}}
"""
