"""Page about the laws behind the recipes: answers, every verdict, scores of the rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pandas as pd

from experiments.laws.result import command, load_verdicts, read_toml, row_estimate
from rebench.intervals import Estimate
from rebench.report.blocks import Block, Details, Figure, Heading, TableBlock, Text, as_markdown

Row: TypeAlias = Mapping[Hashable, Any]
# Values for a sentence of `page.toml`.
Values: TypeAlias = Mapping[str, object]
# Each row has a figure, table or statement of a paper, its law (or LAW:NAME for an experiment), and
# the command that measures it, if this is not the law's command.
_PAPERS: Final = Path(__file__).with_name("papers.csv")


def theory_page(folder: Path) -> str:
    """Return the page of a folder of measured laws, as Markdown."""
    verdicts = load_verdicts(folder)
    texts = read_toml("page")
    answers = takeaways(folder, verdicts)
    blocks: list[Block] = [Heading("The theory, measured", 1), *map(Text, texts["introduction"])]
    blocks += [Heading("Terms", 3), Text(texts["terms"])]
    tables: list[Block] = []
    for stem, caption in texts["captions"].items():
        rows = verdicts[verdicts["file"] == stem]
        if rows.empty:
            continue
        title = str(rows["law"].iloc[0])
        about = [*texts["questions"][stem], *answers.get(stem, ()), *texts["about"][stem]]
        blocks += [Heading(title, 3), Text(about)]
        if any((folder / f"{stem}{end}").is_file() for end in (".svg", ".png", ".pdf")):
            blocks.append(Figure(folder / stem, caption))
        if note := _other_data(folder, stem):
            blocks.append(Text([note]))
        blocks.append(TableBlock(_verdict_rows(rows)))
        for name, rows_of in _TABLES.items():
            path = folder / f"{stem}-{name}.csv"
            if path.is_file():
                table = TableBlock(rows_of(pd.read_csv(path)))
                tables.append(Details(f"{title}: {texts['tables'][name]}", [table]))
    measured = dict(zip(verdicts["file"], verdicts["law"], strict=True))
    if (scores := folder / "released-scores.csv").is_file() and "released" in measured:
        for name in pd.read_csv(scores)["experiment"].unique():
            measured[f"released:{name}"] = measured["released"]
    blocks += [Heading("Results of the papers, and where they are measured", 3)]
    blocks += [TableBlock(_paper_rows(measured))]
    if tables:
        blocks += [Heading("Tables of all scores", 3), Text(texts["tables"]["columns"]), *tables]
    return as_markdown(blocks)


def _other_data(folder: Path, stem: str) -> str | None:
    """Name the images of the rate searches, if they differ from the paper's."""
    rates = folder / f"{stem}-rates.csv"
    if stem not in ("dag", "released") or not rates.is_file():
        return None
    names = [str(name) for name in pd.read_csv(rates)["dataset"].unique()]
    others = [name for name in names if name.partition("-")[0] != "cifar10"]
    if not others:
        return None
    return (
        f"One-epoch rates were searched on {' and '.join(others)}, and on CIFAR-10 in the paper. "
        f"{command(stem)} --set dataset=cifar10 searches them on CIFAR-10."
    )


def _paper_rows(measured: Mapping[str, str]) -> pd.DataFrame:
    """List the papers' results, each with the measured law or the command to measure it."""
    rows = pd.read_csv(_PAPERS).fillna("")
    where = [
        f"above: {measured[law]}"
        if law in measured
        else f"not measured here; {how or command(law)}"
        if law
        else how
        for law, how in zip(rows["law"], rows["how"], strict=True)
    ]
    return rows[["paper", "what"]].assign(where=where)


def _verdict_rows(verdicts: pd.DataFrame) -> pd.DataFrame:
    value, low, high = (verdicts[name].map("{:.3g}".format) for name in ("ours", "low", "high"))
    paper = verdicts["paper"].map("{:.3g}".format).where(verdicts["paper"].notna(), "none")
    ours = value + " [" + low + ", " + high + "]"
    repeated = verdicts["settings"] == verdicts["settings"].shift()
    settings = verdicts["settings"].mask(repeated, "as above")
    columns = ["quantity", "paper", "ours", "verdict", "settings"]
    return verdicts.assign(paper=paper, ours=ours, settings=settings)[columns]


def _score_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Return rules' scores as text; for the published network also by the base's rate."""
    rows: list[dict[str, object]] = []
    for row in scores.to_dict("records"):
        cells = {"experiment": row["experiment"]}
        cells |= {"loss": str(row["criterion"]).partition(" ")[0]} if "criterion" in row else {}
        cells |= {"rule": row["predictor"], "r": _interval(row, "r")}
        if "r_final" in row:
            cells["r minus r of eq. 8"] = _interval(row, "gain")
            cells["r by last losses"] = _two_places(row["r_final"])
        cells |= {"slope": _two_places(row["slope"]), "typical factor": _interval(row, "factor")}
        if "off" in row:
            cells["factor from the identity line"] = _interval(row, "off")
        rows.append(cells)
    return pd.DataFrame(rows)


def _signal_rows(signal: pd.DataFrame) -> pd.DataFrame:
    median, low, high = (signal[name].map("{:.2f}".format) for name in ("median", "min", "max"))
    return pd.DataFrame(
        {
            "edges": signal["edges"],
            "ReLU": signal["order"],
            "norm of": signal["of"],
            "init rule": signal["rule"],
            "median": median + " [" + low + ", " + high + "]",
            "typical factor from 1": signal["typical_factor"].map("{:.2f}".format),
        }
    )


# Tables at the end of the page, by the end of their files' names.
_TABLES: Final[Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "signal": _signal_rows,
    "predictors": _score_rows,
    "scores": _score_rows,
}


def _two_places(value: float) -> str:
    return "none" if pd.isna(value) else f"{value:.2f}"


def _interval(row: Mapping[Hashable, float], name: str) -> str:
    ours = row_estimate(row, name)
    return _two_places(ours.value) if pd.isna(ours.low) else str(ours)


class _Measured(NamedTuple):
    """Verdicts in rows, and scores by experiment and predictor, if any."""

    verdicts: Sequence[Row]
    scores: Mapping[str, Mapping[str, Row]]
    released: Mapping[str, Mapping[str, Row]]  # in the released network, by the epoch's average

    def rows(self, beginning: str) -> list[Row]:
        """Return the verdicts on quantities with this beginning."""
        return [row for row in self.verdicts if str(row["quantity"]).startswith(beginning)]


def takeaways(folder: Path, verdicts: pd.DataFrame) -> dict[str, list[str]]:
    """Return the answers to each law's question: single values, then summaries of several."""
    dag, cells, released = (
        _scores(folder / f"{name}.csv")
        for name in ("dag-predictors", "cells-predictors", "released-scores")
    )
    # If more cells were measured on CIFAR-10, they replace the small sample of the same name.
    measured = _Measured(verdicts.to_dict("records"), dag | cells, released)
    texts = read_toml("page")
    answers: dict[str, list[str]] = {}
    for law, sentences in texts["headlines"].items():
        answers[law] = [
            sentence.format(
                ours=Estimate(row["ours"], row["low"], row["high"]),
                paper=f"{row['paper']:g}",
                verdict=row["verdict"],
            )
            for beginning, sentence in sentences.items()
            for row in measured.rows(beginning)[-1:]
        ]
    for law, sentences in texts["takeaways"].items():
        answers.setdefault(law, []).extend(
            sentence.format_map(values)
            for name, sentence in sentences.items()
            if (values := _VALUES[name](measured))
        )
    return answers


def _scores(path: Path) -> dict[str, dict[str, Row]]:
    """Read scores by experiment and predictor; with two criteria, those of the first."""
    scores: dict[str, dict[str, Row]] = {}
    if path.is_file():
        for row in pd.read_csv(path).to_dict("records"):
            scores.setdefault(str(row["experiment"]), {}).setdefault(str(row["predictor"]), row)
    return scores


def _cells(measured: _Measured) -> Values | None:
    if "cells" not in measured.scores:
        return None
    rules = dict(measured.scores["cells"])
    constant = rules.pop("constant")["factor"]
    rules.pop("perfect rule", None)
    better = [name for name, row in rules.items() if row["factor_high"] < constant]
    best = min(rules, key=lambda name: float(rules[name]["factor"]))
    known = {name: float(row["r"]) for name, row in rules.items() if pd.notna(row["r"])}
    most = max(known, key=known.__getitem__, default="eq. 8, L+1")
    return {
        "found": f"{' and '.join(better)} is" if better else "No rule is shown to be",
        "count": len(rules),
        "best": best,
        "off": row_estimate(rules[best], "factor"),
        "constant": constant,
        "r": row_estimate(rules["eq. 8, L+1"], "r"),
        "most": "" if most == "eq. 8, L+1" else f", {most} {row_estimate(rules[most], 'r')}",
    }


def _released(measured: _Measured) -> Values | None:
    if "graphs" not in measured.released:
        return None
    scores = measured.released["graphs"]
    rows = measured.rows("r of equation 8, depths as the code counts them: MLP graphs with skips")
    transferred = []  # by the released code's rate from the base's rate
    for name, title in (("graphs", "graphs"), ("chains", "chains"), ("cnn", "CNNs")):
        if name in measured.released:
            rule, constant = (
                row_estimate(measured.released[name][predictor], "off")
                for predictor in ("eq. 8, L+3, base counted 3", "constant")
            )
            transferred.append(f"{rule} in {title} (one rate for all: {constant})")
    return {
        "as_written": row_estimate(scores["eq. 8, L"], "r"),
        "as_counted": row_estimate(scores["eq. 8, L+3"], "r"),
        "paper": rows[0]["paper"],
        "paths": row_estimate(scores["path count"], "r"),
        "transferred": ", ".join(transferred),
    }


def _calibrated(measured: _Measured) -> Values | None:
    rules = {
        name: (scores["eq. 8, L+1" if name == "cells" else "eq. 8, L"], scores["constant"])
        for name, scores in measured.scores.items()
    }
    return rules and {
        **_counted("better", [n for n, (r, c) in rules.items() if r["factor_high"] < c["factor"]]),
        **_counted("worse", [n for n, (r, c) in rules.items() if r["factor_low"] > c["factor"]]),
        "count": len(rules),
    }


def _recursion(measured: _Measured) -> Values | None:
    gains = {name: scores["exact recursion"] for name, scores in measured.scores.items()}
    return gains and {
        **_counted("above", [name for name, row in gains.items() if row["gain_low"] > 0]),
        "count": len(gains),
        "below": sum(row["gain_high"] < 0 for row in gains.values()),
    }


def _counted(what: str, names: Sequence[str]) -> Values:
    return {what: len(names), f"{what}_names": ", ".join(names) or "none"}


def _am_mup(measured: _Measured) -> Values | None:
    at_init = measured.rows("exponent of the rate in depth: ")
    trained = measured.rows("exponent of the one-epoch rate in depth: ")
    if not (at_init and trained):
        return None
    agreeing = {
        name: f"{sum(row['low'] <= row['paper'] <= row['high'] for row in rows)} of {len(rows)}"
        for name, rows in (("at_init", at_init), ("trained", trained))
    }
    return {"paper": at_init[0]["paper"], **agreeing}


_VALUES: Final[Mapping[str, Callable[[_Measured], Values | None]]] = {
    "cells": _cells,
    "released": _released,
    "calibrated": _calibrated,
    "recursion": _recursion,
    "am_mup": _am_mup,
}
