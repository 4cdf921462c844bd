"""The laws behind the recipes as blocks of a page: every verdict, every predictor's scores."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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
        number of paths, each experiment with its best scale. e, f: every predictor in every
        experiment, by correlation and by typical factor, which a correlation does not see; the
        colours of a perfect rule are good ones, intervals stand below.""",
    "released": """Graphs in the network of the released code. a, b: measured one-epoch rates
        against what equation 8 and the number of paths make of the base graph's rate. c:
        correlations. d: factors from the identity line; a constant is the base's rate
        for all.""",
    "cells": """Cells with batch normalisation. a to c: measured one-epoch rates against equation 8
        as the released code counts depths, one step and the number of paths, with the best common
        scale. d, e: every rule by correlation and by typical factor; the constant is one rate for
        all.""",
    "bafu": """a: the identity at cuts, and its failure on edges beside other paths. b: alignment
        with depth, the first layer trained too. c: training with equal contributions, and with one
        rate: an experiment of ours, not the paper's.""",
    "speed": """a to c: median over draws by layer, at the last depth; lines are infinite width,
        ours. d: sensitivity of the last feature under three scalings of readout and rate.""",
    "am-mup": """a: the rate with mean update 1 at init, colours as in b. b: its exponent by family;
        the paper's is dashed. c: the best rate of one epoch on images.""",
}

_HOW_TO_READ: Final = (
    """paper: the paper's own figure, where it has one. ours: the value with its 95 % interval, or
    with its range or quartiles where the settings say so.""",
    "typical factor: the factor by which a rate is off after the best common scale; 1 is perfect.",
    """factor from the base's rate: the same without a fitted scale, where a rule starts from the
    rate found for the base graph; the distance from the identity line.""",
    """eq. 8 reads depths as layers of the graph (L), or as the released code counts them (L+1 for
    cells, L+3 for MLPs and CNNs; base counted 3: it counts its base graph as 3, the others so that
    the base would have 4). perfect rule: what the noise of seeds leaves to be had.""",
)


class _Item(NamedTuple):
    """A figure, table or statement of a paper; where it is not measured, how it can be."""

    paper: str
    what: str
    law: str | None  # the file's stem of the law that measures it; of an experiment, LAW:NAME
    how: str


_RELEASED: Final = "rebench theory released --data cifar10 --out FOLDER"
_PAPERS: Final[Sequence[_Item]] = (
    _Item("Jelassi et al., theorem 1.1", "exponent -3/2, bounds for all widths and depths", "depth",
          "rebench theory depth --out FOLDER"),
    _Item("Jelassi et al., lemmas 2.1 to 2.9", "terms of the update, one recursion each", "depth",
          "rebench theory depth --out FOLDER"),
    _Item("Jelassi et al., layers of other widths", "theorem 1.1 allows each layer its own",
          "depth", "rebench theory depth --out FOLDER"),
    _Item("Chen et al., equations 1 and 4", "the init, and which in-degree keeps the norm", "dag",
          "rebench theory dag --out FOLDER"),
    _Item("Chen et al., equation 9", "the power of the kernel's size", "dag",
          "rebench theory dag --out FOLDER"),
    _Item("Chen et al., figure 2", "MLP graphs on CIFAR-10, r .838", "released:graphs",
          _RELEASED),
    _Item("Chen et al., figure 3", "CNN graphs on CIFAR-10, r .856", "released:cnn",
          f"{_RELEASED} --device cuda, on a GPU"),
    _Item("Chen et al., figure 4", "cells trained for 200 epochs: +0.44, +1.24, +2.09 points", None,
          'on GPUs: a sweep with recipes = ["nb201", "topology"], then rebench rank'),
    _Item("Chen et al., under figure 4", "maximal rates of cells with batch normalisation", "cells",
          "rebench theory cells --data cifar10 --out FOLDER --workers 2: 3 to 6 hours of processor,"
          " to be killed and run again at will"),
    _Item("Chen et al., figure 5", "MLP chains on CIFAR-10, r .962", "released:chains",
          _RELEASED),
    _Item("Chen et al., figure 6", "MLPs on ImageNet, r .856 for depths, .729 for graphs", None,
          "on a GPU: rebench theory released --only chains --only graphs --data NAME --device cuda,"
          " a data set of yours"),
    _Item("Chen et al., figure 7", "GELU: r .920 for depths, .680 for graphs, .949 for CNNs",
          "released:cnn-gelu", f"{_RELEASED} --device cuda, on a GPU"),
    _Item("Chen et al., figure 8", "the rule beside muP at the rate 0.1", None,
          'on GPUs: a sweep with "mup(base_lr=0.1)" among the recipes, then rebench rank'),
    _Item("Chen et al., figure 9", "rankings by the rule beside rankings by seeds", None,
          "rebench rank shows both for a run or a table"),
    _Item("Chizat and Netrapalli, the speed formula", "updates and angles at cuts", "bafu",
          "rebench theory bafu --out FOLDER"),
    _Item("Chizat and Netrapalli, theorem 2.4", "the angle from the kernel's spectrum", "speed",
          "rebench theory speed --out FOLDER"),
    _Item("Chizat and Netrapalli, proposition 2.6", "a bound for the angle in MLPs", "bafu",
          "rebench theory bafu --out FOLDER"),
    _Item("Chizat and Netrapalli, figure 4", "the angle by layer, depth and branch scale", "bafu",
          "rebench theory bafu --out FOLDER"),
    _Item("Chizat and Netrapalli, figure 5", "updates, angle, sensitivity by layer",
          "speed", "rebench theory speed --out FOLDER"),
    _Item("Chizat and Netrapalli, table 1", "scalings of readout and rate", "speed",
          "rebench theory speed --out FOLDER"),
    _Item("Chizat and Netrapalli, 3.2 and B.1", "invariance under a rescaling of layers", "bafu",
          "rebench theory bafu --out FOLDER"),
    _Item("AM-muP, its law at init", "exponent -3/2 of CNNs and residual networks", "am-mup",
          "rebench theory am-mup --out FOLDER"),
    _Item("AM-muP, its figures in training", "best rates by depth, one epoch", "am-mup",
          "rebench theory am-mup --out FOLDER"),
    _Item("AM-muP, its networks at full size", "64 channels, 3 to 30 layers", None,
          "the networks above are smaller"),
)  # fmt: skip


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
        if note := _other_data(folder, stem):
            blocks.append(Text([note]))
        blocks.append(Table(_verdict_rows(found), wrap=True))
        for name, (title, rows_of) in _FOLDS.items():
            table = folder / f"{stem}-{name}.csv"
            if table.is_file():
                blocks.append(Details(title, [Table(rows_of(pd.read_csv(table)))]))
    measured = dict(zip(verdicts["file"], verdicts["law"], strict=True))
    if (scores := folder / "released-scores.csv").is_file() and "released" in measured:
        for name in pd.read_csv(scores)["experiment"].unique():
            measured[f"released:{name}"] = measured["released"]
    blocks += [Heading("Every figure, table and statement", 3)]
    blocks += [Table(_paper_rows(measured), wrap=True)]
    return blocks


def _other_data(folder: Path, stem: str) -> str | None:
    """Say on what images rates were searched where they are not those of the paper."""
    rates = folder / f"{stem}-rates.csv"
    if stem not in ("dag", "released") or not rates.is_file():
        return None
    names = [str(name) for name in pd.read_csv(rates)["dataset"].unique()]
    others = [name for name in names if name.partition("-")[0] != "cifar10"]
    if not others:
        return None
    return (
        f"Maximal rates were searched on {' and '.join(others)} here, on CIFAR-10 in the paper; "
        f"rebench theory {stem} --data cifar10 --out FOLDER searches them there."
    )


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


def _paper_rows(measured: Mapping[str, str]) -> pd.DataFrame:
    """Return what the papers have, and where it is: a law measured here, or how to measure it."""
    rows = [
        {
            "paper": item.paper,
            "what": item.what,
            "where": f"above: {measured[item.law]}"
            if item.law and item.law in measured
            else f"not measured here; {item.how}",
        }
        for item in _PAPERS
    ]
    return pd.DataFrame(rows)


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


def _released_rows(scores: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "experiment": row["experiment"],
            "loss": row["criterion"],
            "predictor": row["predictor"],
            "r": _interval(row, "r"),
            "slope": "none" if pd.isna(row["slope"]) else f"{row['slope']:.2f}",
            "typical factor": _interval(row, "factor"),
            "factor from the base's rate": _interval(row, "off"),
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
    "scores": ("Every predictor in every experiment, by both losses", _released_rows),
}


def _interval(row: Mapping[Hashable, float], name: str) -> str:
    if pd.isna(row[name]):
        return "none"
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{value:.2f}" if pd.isna(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"
