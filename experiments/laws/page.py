"""The laws behind the recipes as blocks of a page: every verdict, every predictor's scores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Final

import pandas as pd

from experiments.laws.result import command, load_verdicts, read_toml, row_estimate
from experiments.laws.takeaways import takeaways
from rebench.report.blocks import Block, Details, Figure, Heading, Table, Text, as_markdown

# A figure, table or statement of a paper; the law that measures it (of an experiment, LAW:NAME);
# where it is not measured, how it can be, if not by that law's command.
_PAPERS: Final = Path(__file__).with_name("papers.csv")


def theory_page(folder: Path) -> str:
    """The page of a folder that laws were measured into, as Markdown beside it."""
    blocks = [Heading("The theory, measured", 1), *theory_blocks(folder)]
    return as_markdown(blocks)


def theory_blocks(folder: Path) -> list[Block]:
    """The blocks of every law measured into `folder`."""
    verdicts = load_verdicts(folder)
    blocks: list[Block] = []
    if said := takeaways(folder, verdicts):
        blocks += [Heading("What to take away", 3), Text(said)]
    texts = read_toml("page")
    blocks += [Heading("How to read it", 3), Text(texts["how_to_read"])]
    for stem, caption in texts["captions"].items():
        rows = verdicts[verdicts["file"] == stem]
        if rows.empty:
            continue
        blocks.append(Heading(str(rows["law"].iloc[0]), 3))
        if any((folder / f"{stem}{end}").is_file() for end in (".svg", ".png", ".pdf")):
            blocks.append(Figure(folder / stem, caption))
        if note := _other_data(folder, stem):
            blocks.append(Text([note]))
        blocks.append(Table(_verdict_rows(rows), wrap=True))
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
        f"{command(stem)} --set dataset=cifar10 searches them there."
    )


def _paper_rows(measured: Mapping[str, str]) -> pd.DataFrame:
    """What the papers have, and where it is: a law measured here, or how to measure it."""
    rows = pd.read_csv(_PAPERS).fillna("")
    where = [
        f"above: {measured[law]}"
        if law in measured
        else f"not measured here; {how or command(law)}"
        for law, how in zip(rows["law"], rows["how"], strict=True)
    ]
    return rows[["paper", "what"]].assign(where=where)


def _verdict_rows(verdicts: pd.DataFrame) -> pd.DataFrame:
    value, low, high = (verdicts[name].map("{:.3g}".format) for name in ("ours", "low", "high"))
    paper = verdicts["paper"].map("{:.3g}".format).where(verdicts["paper"].notna(), "none")
    ours = value + " [" + low + ", " + high + "]"
    columns = ["quantity", "paper", "ours", "verdict", "settings"]
    return verdicts.assign(paper=paper, ours=ours)[columns]


def _score_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Every predictor's scores; in the released network by both losses and from a base's rate."""
    rows: list[dict[str, object]] = []
    for row in scores.to_dict("records"):
        cells = {"experiment": row["experiment"]}
        cells |= {"loss": row["criterion"]} if "criterion" in row else {}
        cells |= {"predictor": row["predictor"], "r": _interval(row, "r")}
        if "r_final" in row:
            cells["r minus that of eq. 8"] = _interval(row, "gain")
            cells["r by last losses"] = _two_places(row["r_final"])
        cells |= {"slope": _two_places(row["slope"]), "typical factor": _interval(row, "factor")}
        if "off" in row:
            cells["factor from the base's rate"] = _interval(row, "off")
        rows.append(cells)
    return pd.DataFrame(rows)


def _signal_rows(signal: pd.DataFrame) -> pd.DataFrame:
    median, low, high = (signal[name].map("{:.2f}".format) for name in ("median", "min", "max"))
    return pd.DataFrame(
        {
            "edges": signal["edges"],
            "activation": signal["order"] + " the weights",
            "norm of": signal["of"],
            "in-degree rule": signal["rule"],
            "median": median + " [" + low + ", " + high + "]",
            "typical factor from 1": signal["typical_factor"].map("{:.2f}".format),
        }
    )


# The tables of a law that its page folds away, by the end of their files' names.
_FOLDS: Final[Mapping[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame]]]] = {
    "signal": ("Norms under every rule for the init, median and range over graphs", _signal_rows),
    "predictors": ("Every predictor in every experiment", _score_rows),
    "scores": ("Every predictor in every experiment, by both losses", _score_rows),
}


def _two_places(value: float) -> str:
    return "none" if pd.isna(value) else f"{value:.2f}"


def _interval(row: Mapping[Hashable, float], name: str) -> str:
    ours = row_estimate(row, name)
    return _two_places(ours.value) if pd.isna(ours.low) else str(ours)
