"""What a learning-rate surface says, as blocks of a page, its findings first."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rebench.figures.surface import draw_surface
from rebench.report.blocks import Block, Callout, Figure, Heading, Subtitle, Table, Text
from rebench.report.surface import SurfaceAnswers
from rebench.report.surface_tables import Row, records, surface_tables, within

__all__ = ["surface_blocks", "surface_title"]

_LIMITS: Final = (
    """The answers hold for networks of this size, trained this long on these images. Longer
    training may ask for other rates, and seeds differ more in small data: for other sizes ask the
    same of a surface of theirs. Every cell is one of a functional class, so that equal networks do
    not count twice.""",
    """Only the learning rate differs between the columns of a surface. What a rule changes beside
    it (an initialisation, a rate for every layer) is asked by training with the rule: the last
    two tables.""",
    """A rate is chosen on some seeds and scored on the others. Intervals are 95 %, by bootstrap
    over functional classes.""",
)


def surface_title(answers: SurfaceAnswers) -> str:
    """Say in a line what the surface is made of."""
    found = answers.surface
    scored = "parts of a sample, by regression" if answers.is_regression else "seeds"
    return (
        f"{len(found.cells)} functional classes, {len(found.rates)} rates, {len(found.seeds)} "
        f"{scored}; {found.dataset}, {found.epochs} epochs"
    )


def surface_blocks(answers: SurfaceAnswers, figures: Path, *, stem: str = "surface") -> list[Block]:
    """Return the blocks of a page about a surface; its figure is saved in `figures`."""
    draw_surface(answers).save(figures / stem)
    return [
        Subtitle(surface_title(answers)),
        *_findings(answers),
        Figure(
            figures / stem,
            "(a) Every cell's accuracy over the rate, mean over seeds, and the mean over cells; "
            "dots: each cell's best rate. (b) How far the ranking of all cells moves from that at "
            "the benchmark's rate: what tau lacks beyond seeds, with its interval, over the rate "
            "at which the networks learn, of which an init is a part. (c) Regret of each rule over "
            "its mean rate: its base rate moves it along, its shape decides how low it gets.",
        ),
        *[
            block
            for title, table in surface_tables(answers).items()
            for block in (Heading(title, 3), Table(table))
        ],
        Heading("What this answers, and what it does not", 3),
        Text([*_LIMITS, *answers.notes]),
    ]


def _findings(answers: SurfaceAnswers) -> list[Callout]:
    """Say the answers in a sentence each, with their intervals."""
    gains = [
        Callout(
            f"Every cell at its own best rate, over {row['over']}",
            f"{row['gain']:+.2f} points on average{within(row, 'gain')}.",
            row["gain_low"] > 0,
        )
        for row in records(answers.gains)
        if row["top_percent"] == 100 and row["of"] == "own best rate"
    ]
    moves = [
        Callout(
            f"How far the rate re-ranks all cells: own best rate against {row['before']}",
            f"{_reranked(row)}.",
            row["reranked_low"] > 0,
        )
        for row in records(answers.reranking)
        if row["top_percent"] == 100 and row["after"] == "own best rate"
    ]
    if len(answers.single_rates):
        most = max(records(answers.single_rates), key=lambda row: float(row["reranked"]))
        moves.insert(
            0,
            Callout(
                f"The rate that re-ranks all cells most, of {len(answers.single_rates)} given to "
                f"all: {most['rate']:g}",
                f"{_reranked(most)}.",
                most["reranked_low"] > 0,
            ),
        )
    found = gains + moves
    rules = [
        row
        for row in records(answers.regrets)
        if row["base"] == "best" and row["rule"] != "constant"
    ]
    if rules:
        best = max(rules, key=lambda row: float(row["over_constant"]))
        found.append(
            Callout(
                f"The best of {len(rules)} rules over one rate for all: {best['rule']}",
                f"{best['over_constant']:+.2f} points, each at its best base rate"
                f"{within(best, 'over_constant')}.",
                best["over_constant_low"] > 0,
            )
        )
    if len(answers.fits):
        best = max(records(answers.fits), key=lambda row: float(row["gain"]))
        found.append(
            Callout(
                f"What predicts the best rate of a cell that the fit never saw: "
                f"{best['predictors']}, of {len(answers.fits)} tried",
                f"{best['gain']:+.2f} points over one rate for all{within(best, 'gain')}.",
                best["gain_low"] > 0,
            )
        )
    return _findings_of_recipes(answers) + found


def _findings_of_recipes(answers: SurfaceAnswers) -> list[Callout]:
    """Say of the recipe that re-ranks most what it does to the ranking, and to accuracies.

    Only recipes as they come: with parameters of its own, one was trained to ask something else.
    """
    whole = [
        row
        for row in records(answers.direct_reranking)
        if row["top_percent"] == 100 and "(" not in row["recipe"]
    ]
    if not whole:
        return []
    most = max(whole, key=lambda row: float(row["reranked"]))
    (its,) = (row for row in records(answers.direct) if row["recipe"] == most["recipe"])
    beside = " with the benchmark's rate"
    return [
        Callout(
            f"The recipe that re-ranks all cells most, of {len(whole)} with their own settings: "
            f"{most['recipe']}",
            f"{_reranked(most, beside)}; accuracies change by "
            f"{its['gain']:+.2f} points{within(its, 'gain')}.",
            most["reranked_low"] > 0,
        )
    ]


def _reranked(row: Row, other: str = "") -> str:
    """Say what tau is, what seeds alone leave of it, and how much is missing beyond that."""
    return (
        f"tau {row['tau']:.2f}{other}, {row['noise']:.2f} by seeds alone: "
        f"{row['reranked']:.2f} less{within(row, 'reranked')}"
    )
