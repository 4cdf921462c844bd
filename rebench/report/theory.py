"""The laws behind the recipes as blocks of a page: every verdict, every predictor's scores."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Final

import pandas as pd

from rebench.report.blocks import Block, Details, Figure, Heading, Table, Text
from rebench.report.takeaways import takeaways

__all__ = ["theory_blocks", "theory_page"]

_CAPTIONS: Final = {
    "depth": """One step of gradient descent in ReLU MLPs. a: mean squared update of the last layer,
        Monte Carlo with two standard errors, our exact recursion (thin) and its limit (dashed).
        b: the rate at which it is 1. c: the whole update over the first-order one at that rate.""",
    "dag": """a: one-step rates of all connected graphs of five vertices against the exact
        recursion. b to d: measured one-epoch rates against equation 8, the recursion and the
        number of paths. e, f: every predictor in every experiment, by correlation and by typical
        factor, which a correlation does not see.""",
    "bafu": """a: the identity at cuts, and its failure on edges beside other paths. b: alignment
        with depth, the first layer trained too. c: training with equal contributions, and with one
        rate: an experiment of ours, not the paper's.""",
    "am-mup": """a: the rate with mean update 1 at init, colours as in b. b: its exponent by family;
        the paper's is dashed. c: the best rate of one epoch on images.""",
}

_HOW_TO_READ: Final = (
    """paper: the paper's own figure, where it has one. ours: the value with its 95 % interval, or
    with its range or quartiles where the settings say so.""",
    "typical factor: the factor by which a rate is off after the best common scale; 1 is perfect.",
    """eq. 8 reads depths as layers of the graph (L), or as the released code counts them (L+1 for
    cells, L+3 for MLPs and CNNs). perfect rule: what the noise of seeds leaves to be had.""",
)

_NOT_HERE: Final = pd.DataFrame(
    [
        (
            "Chen et al., figure 4",
            "cells trained for 200 epochs: +0.44, +1.24 and +2.09 points on the three data sets",
            'a sweep with recipes = ["nb201", "topology"] on GPUs, then rebench rank',
        ),
        (
            "Chen et al., appendix E.3",
            "the rule beside muP at the rate 0.1",
            'the same with "mup(base_lr=0.1)" among the recipes',
        ),
        (
            "Chen et al., MLPs on ImageNet",
            "r .856 for depths, .729 for graphs",
            "rebench theory dag --only chain --only mlp --data NAME, a data set of yours",
        ),
        (
            "Chen et al., graphs with skips on CIFAR-10",
            "r .838 is of graphs that mostly have skips; the graphs above have none",
            "not written yet",
        ),
        (
            "Chizat and Netrapalli, figure 5 and table 1",
            "updates, alignment and sensitivity by layer at width and depth 200; scalings",
            "not written yet",
        ),
    ],
    columns=["paper", "what", "how"],
)


def theory_page(folder: Path) -> str:
    """Return the page of a folder that `rebench theory --out` wrote, as Markdown beside it."""
    blocks = [Heading("The theory, measured", 1), *theory_blocks(folder)]
    return "\n\n".join(block.to_markdown() for block in blocks) + "\n"


def theory_blocks(folder: Path, figures: Path | None = None) -> list[Block]:
    """Return the blocks of every law measured into `folder`, its figures copied to `figures`."""
    # Imported when asked for: it brings torch, which reports without theory do not need.
    from rebench.theory.result import load_verdicts

    verdicts = load_verdicts(folder)
    blocks: list[Block] = []
    if said := takeaways(folder, verdicts):
        blocks += [Heading("What to take away", 3), Text(said)]
    blocks += [Heading("How to read it", 3), Text(_HOW_TO_READ)]
    for stem, caption in _CAPTIONS.items():
        found = verdicts[verdicts["file"] == stem]
        if found.empty:
            continue
        blocks.append(Heading(str(found["law"].iloc[0]), 3))
        if drawing := _figure(folder, stem, figures):
            blocks.append(Figure(drawing, " ".join(caption.split())))
        blocks.append(Table(_verdict_rows(found), wrap=True))
        for name, (title, rows_of) in _FOLDS.items():
            table = folder / f"{stem}-{name}.csv"
            if table.is_file():
                blocks.append(Details(title, [Table(rows_of(pd.read_csv(table)))]))
    blocks += [Heading("Not measured here", 3), Table(_NOT_HERE, wrap=True)]
    return blocks


def _figure(folder: Path, stem: str, figures: Path | None) -> Path | None:
    """Return where a law's figure lies, without a suffix."""
    drawn = [path for path in folder.glob(f"{stem}.*") if path.suffix in (".svg", ".png", ".pdf")]
    if not drawn:
        return None
    if figures is None:
        return folder / stem
    for path in drawn:
        shutil.copyfile(path, figures / f"theory-{path.name}")
    return figures / f"theory-{stem}"


def _verdict_rows(verdicts: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "quantity": row["quantity"],
            "paper": "none" if pd.isna(row["paper"]) else f"{row['paper']:.3g}",
            "ours": f"{row['ours']:.3g} [{row['low']:.3g}, {row['high']:.3g}]",
            "verdict": row["verdict"],
            "settings": row["settings"],
        }
        for row in verdicts.to_dict("records")
    ]
    return pd.DataFrame(rows)


def _score_rows(scores: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "experiment": row["experiment"],
            "predictor": row["predictor"],
            "r": _interval(row, "r"),
            "r minus that of eq. 8": _interval(row, "gain"),
            "r by last losses": "none" if pd.isna(row["r_final"]) else f"{row['r_final']:.2f}",
            "slope": "none" if pd.isna(row["slope"]) else f"{row['slope']:.2f}",
            "typical factor": _interval(row, "factor"),
        }
        for row in scores.to_dict("records")
    ]
    return pd.DataFrame(rows)


def _signal_rows(signal: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "edges": row["edges"],
            "activation": f"{row['order']} the weights",
            "norm of": row["of"],
            "in-degree rule": row["rule"],
            "median": f"{row['median']:.2f} [{row['min']:.2f}, {row['max']:.2f}]",
            "typical factor from 1": f"{row['typical_factor']:.2f}",
        }
        for row in signal.to_dict("records")
    ]
    return pd.DataFrame(rows)


# The tables of a law that its page folds away, by the end of their files' names.
_FOLDS: Final[Mapping[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame]]]] = {
    "signal": ("Norms under every rule for the init, median and range over graphs", _signal_rows),
    "predictors": ("Every predictor in every experiment", _score_rows),
}


def _interval(row: Mapping[Hashable, float], name: str) -> str:
    if pd.isna(row[name]):
        return "none"
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{value:.2f}" if pd.isna(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"
