"""``rebench search``: NAS algorithms replayed on tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from rebench.cli import options
from rebench.cli.groups import App
from rebench.cli.output import print_json, print_rows, printable, progress, say, warn
from rebench.cli.rank import Format
from rebench.errors import InputError, UnknownNameError
from rebench.search.proxy_names import NET_PROXIES, PROXY_SOURCE

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from rebench.search import Budget, SearchTable
    from rebench.train import KeptNetwork

__all__ = ["app"]

app = App(help="Run and compare NAS algorithms on tables of accuracies.")

# Images that networks are scored on, as in the papers of zero-cost proxies.
_IMAGES: Final = 64

_HEADINGS: Final = {
    "low": "95 % CI",
    "rank_baseline": "rank on the baseline",
    "rank_other": "rank on the other table",
    "profit": "places gained",
    "friedman_p": "p (Friedman)",
    "opposite": "pairs in opposite order",
    "swaps": "significantly",
    "wins": "probability",
    "found_best": "best found",
}

Repeats = Annotated[
    int, typer.Option(help="Number of independent searches by each algorithm.", min=1)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """Accuracies to search, and the signal that an algorithm gets."""

    dataset: options.Dataset = None
    recipe: options.Recipe = None
    epochs: Annotated[
        list[int] | None,
        typer.Option(
            help="Algorithms see accuracies after this number of epochs; repeatable. Default: every"
            " number of epochs in the table; with --fidelity curve, see that option."
        ),
    ] = None
    fidelity: Annotated[
        Literal["runs", "curve"],
        typer.Option(
            help="Short trainings for Hyperband and BOHB. runs: separate trainings with fewer "
            "epochs. curve: accuracies during one training, after each number of epochs in "
            "--epochs; without --epochs, after 1/9, 1/3 and all of its epochs."
        ),
    ] = "runs"
    on_test: Annotated[
        bool, typer.Option("--on-test", help="Search on test accuracy, not validation accuracy.")
    ] = False
    signal: Annotated[
        str | None,
        typer.Option(
            help="Table whose accuracies the algorithms see, such as short trainings. The cells "
            "that they find are judged by TABLE."
        ),
    ] = None
    times: Annotated[
        str | None, typer.Option(help="Table with training times, if TABLE has none.")
    ] = None
    trained: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Run folder with stored networks (RUN@RECIPE selects a recipe). Only the cells of "
            "these networks are searched. The algorithm `predictor` also gets scores that are "
            "computed from each network and a "
            f"batch of images ({', '.join(NET_PROXIES)}).",
        ),
    ] = None

    def open(self, *names: str) -> list[SearchTable]:
        """Open one table, or two with the same signal over the cells of both."""
        from rebench.search.proxies import image_batch, knowing
        from rebench.search.tabular import search_tables

        tables = search_tables(
            names,
            self.dataset,
            recipe=self.recipe,
            on_test=self.on_test,
            signal=self.signal,
            times=self.times,
            epochs=self.epochs,
            curve=self.fidelity == "curve",
        )
        if self.trained is None:
            return tables
        dataset = tables[0].dataset
        kept = _kept(self.trained, dataset, self.recipe)
        return knowing(tables, kept, *image_batch(dataset, _IMAGES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Budget of an algorithm, in simulated seconds or in evaluations, not both."""

    seconds: Annotated[
        float | None, typer.Option(help="Budget in GPU-seconds, by the times in the table.", min=1)
    ] = None
    evaluations: Annotated[
        float | None,
        typer.Option(help="Budget as a number of trainings, instead of --seconds.", min=1),
    ] = None

    def budget(self, tables: Sequence[SearchTable]) -> Budget:
        """Return the requested or the papers' budget, at most the cost of all cells."""
        from rebench.search import Budget
        from rebench.search.run import affordable, paper_budget

        if self.seconds is None and self.evaluations is None:
            kind, wanted = "The default", paper_budget(*tables)
        else:
            kind, wanted = "A", Budget(seconds=self.seconds, evaluations=self.evaluations)
        spent = affordable(wanted, tables)
        if spent != wanted:
            warn(
                f"{kind} budget of {wanted} is more than the cost of all {len(tables[0].space):,} "
                f"{tables[0].space.of_space.items}: searched with {spent}"
            )
        return spent


@app.command("list")
def list_algorithms(as_json: options.AsJson = False) -> None:
    """List the algorithms.

    Example: rebench search list
    """
    from rebench.search import algorithm_names, describe

    rows = [{"algorithm": name, "what it does": describe(name)} for name in algorithm_names()]
    print_rows(rows, as_json=as_json)


@app.command()
@options.takes(how=Searching, spending=Spending)
def run(
    algorithm: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help="Name in `rebench search list`.")
    ],
    table: options.TableName,
    *,
    how: Searching,
    spending: Spending,
    repeats: Repeats = 1,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Run one algorithm on a table; print the cells that it finds and their accuracies.

    Example: rebench search run rea mini@topology --evaluations 20
    """
    import pandas as pd

    from rebench.search import compare

    (searched,) = how.open(table)
    budget = spending.budget([searched])
    with progress("searches", repeats) as update:
        (comparison,) = compare(
            searched,
            [algorithm],
            budget=budget,
            repeats=repeats,
            seed=seed,
            on_run=lambda _: update(advance=1),
        ).results
    answers = []
    for number, search_run in enumerate(comparison.runs[algorithm]):
        place, spent = search_run.answers[-1], float(search_run.clock[-1])
        final = float(searched.final[place])
        answers.append(
            {
                "run": number,
                "cell": int(searched.space.indices[place]),
                searched.measure.name: round(searched.measure.goodness(final), 4),
                "regret": round(searched.best - final, 4),
                "evaluations": len(search_run.clock),
                "spent": round(spent, 3),
            }
        )
    _print_sections(
        {"answers": pd.DataFrame(answers), "summary": comparison.summary()},
        notes=[searched.protocol, f"budget: {comparison.budget}"],
        as_json=as_json,
    )


@app.command("compare")
@options.takes(how=Searching, spending=Spending)
def compare_tables(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="BASELINE [OTHER]", help="One or two tables; NAME@RECIPE selects a recipe."
        ),
    ],
    algorithm: Annotated[
        list[str] | None,
        typer.Option(help="Name in `rebench search list`; repeatable (default: all)."),
    ] = None,
    *,
    how: Searching,
    spending: Spending,
    repeats: Repeats = 500,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also print ranks, pairs of algorithms, the agreement of the tables and their "
            "protocols. JSON always contains them.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Name of the figures to save, without a suffix.")
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table, csv, json, latex or md. csv, latex and md contain only the first part, "
            "the accuracies at the end of the search.",
        ),
    ] = "table",
    as_json: options.AsJson = False,
) -> None:
    """Compare search algorithms on one table; on two, also how they rank the algorithms.

    Two tables are searched in the same way, on the cells that both contain. Algorithms see
    validation accuracies only if both tables contain them, and otherwise test accuracies. They see
    training times only if both have them. The cells that they find are judged by test accuracy, or
    by validation accuracy if a table has no other.

    Tables of the single seeds of BASELINE are searched, too: the seed baseline shows how
    much other seeds change the order. Without known seeds, equal cells exchange their accuracies.

    Example: rebench search compare mini@fixed mini@topology --repeats 100
    """
    from rebench.search import algorithm_names
    from rebench.search.comparison import Comparison, compare
    from rebench.search.seeds import seed_tables

    if out is not None:
        from rebench.report.figures.search import comparison_files, save_comparison

        for path in comparison_files(len(tables), out):
            options.refuse_existing(path, force)
    opened = how.open(*tables)
    names = algorithm or algorithm_names()
    budget = spending.budget(opened)

    searched = len(opened)
    if searched == 2 and len(set(names)) > 1:
        searched += len(seed_tables(opened[0]))
    with progress("searches", repeats * len(names) * searched) as update:
        compared = compare(
            opened,
            names,
            budget=budget,
            repeats=repeats,
            seed=seed,
            on_run=lambda _: update(advance=1),
        )
    results = compared.results
    verdict = compared.verdict()
    protocols = [f"{result.table.name}: {result.table.protocol}" for result in results]
    protocols.append(f"budget: {results[0].budget}, {repeats} repeats, seed {seed}")
    saved = []
    if out is not None:
        saved = [f"saved {path}" for path in save_comparison(results, out)]
    if output in ("csv", "latex", "md"):
        writers: dict[Format, Callable[[], str | None]]
        writers = {"csv": compared.to_csv, "latex": compared.to_latex, "md": compared.to_markdown}
        typer.echo(printable(writers[output]() or ""), nl=False)
        for note in (*verdict, *protocols, *saved):
            say(note, err=True)
        return
    sections = {
        f"Final {compared.split} {results[0].table.measure.name}": compared.frame(),
        "Average ranks": compared.frame(Comparison.ranks),
        "Chance that the first ends better": compared.frame(Comparison.wins),
    }
    if compared.agreement is not None:
        sections["Agreement of the rankings"] = compared.agreements()
        sections["Ranking of the algorithms"] = compared.profit()
        sections["Pairs that swap"] = compared.agreement.swaps
    as_json = as_json or output == "json"
    if not details and not as_json:
        sections = dict([*sections.items()][:1])
        protocols = ["--details prints ranks, pairs of algorithms, agreement and protocols."]
    _print_sections(sections, verdict=verdict, notes=[*protocols, *saved], as_json=as_json)


@app.command()
def proxies(
    table: options.TableName,
    dataset: options.Dataset = None,
    recipe: options.Recipe = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help=f"Also score networks by {', '.join(NET_PROXIES)} or all; repeatable."),
    ] = None,
    cells: Annotated[int, typer.Option(help="Largest number of networks to score.", min=4)] = 200,
    images: Annotated[int, typer.Option(help="Number of images in the batch.", min=1)] = _IMAGES,
    images_of: Annotated[
        str | None, typer.Option(help="Data set of the images (default: that of the accuracies).")
    ] = None,
    trained: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Score the networks that this run has stored (without --proxy, by all scores). "
            "RUN@RECIPE selects a recipe.",
        ),
    ] = None,
    assignments: options.SomeSettings = None,
    data_root: options.DataRoot = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Compare scores that need no training (proxies) with the accuracies in a table.

    The numbers of parameters and FLOPs and path statistics are compared for all cells. With
    --proxy, a random sample of the cells is built, initialised and scored on one batch of images.
    All proxies are then compared on this sample. With --trained, the networks that a run has stored
    are scored, for its first seed.

    Example: rebench search proxies mini@fixed --proxy naswot --images-of digits
    """
    import numpy as np

    from rebench.data import data_spec
    from rebench.search.proxies import image_batch, net_proxy_scores, rate_proxies

    (searched,) = Searching(dataset=dataset, recipe=recipe, on_test=True).open(table)
    skeleton = options.sweep_of(assignments).skeleton
    notes = []
    scores: dict[str, NDArray[np.float64]] = {}
    if proxy or trained:
        names = list(NET_PROXIES) if not proxy or "all" in proxy else proxy
        for name in names:  # before the images are read
            if name not in NET_PROXIES:
                raise UnknownNameError("proxy", name, NET_PROXIES)
        known = searched.space.indices
        source = images_of or searched.dataset
        kept = _kept(trained, source, recipe) if trained else None
        if kept:
            known = known[np.isin(known, list(kept))]
        sample = np.random.default_rng(seed).choice(known, min(cells, len(known)), replace=False)
        searched = searched.restrict(sample.tolist())
        batch = image_batch(source, images, seed=seed, root=data_root)
        with progress("networks", len(sample)) as update:
            scores = net_proxy_scores(
                names,
                searched.space.indices.tolist(),
                *batch,
                seed=seed,
                channels=skeleton.channels,
                cells_per_stage=skeleton.cells_per_stage,
                classes=data_spec(source).classes,
                trained=kept,
                on_cell=lambda _: update(advance=1),
            )
        size = f"{skeleton.channels} channels, {skeleton.cells_per_stage} cells a stage"
        made = f"trained, stored by {trained}" if kept else f"{size}, PyTorch's init"
        notes.append(f"networks: {made}, one batch of {images} images of {source}, seed {seed}")
    notes.insert(0, f"ranked against: {searched.reported}, {len(searched.space):,} cells")
    rated = rate_proxies(searched, scores)
    if "published" in rated:
        notes.append(f"published (all cells, 16 channels, 5 cells a stage): {PROXY_SOURCE}")
    _print_sections({"Proxies": rated}, notes=notes, as_json=as_json)


def _kept(run: Path, dataset: str, recipe: str | None) -> dict[int, KeptNetwork]:
    """Return, for each cell, the network that a run has stored for its first seed."""
    from rebench.train import kept_networks

    networks = kept_networks(run, dataset=dataset, network="rebench", recipe=recipe)
    found = {f"{one.trial.recipe.label} ({one.trial.epochs} epochs)" for one in networks}
    if len(found) != 1:
        raise InputError(
            f"--trained needs networks of {dataset} by one recipe, got from {run}: "
            f"{', '.join(sorted(found)) or 'none'}; RUN@RECIPE selects a recipe"
        )
    networks.sort(key=lambda each: -each.trial.seed)
    return {each.trial.index: each for each in networks}


def _print_sections(
    sections: Mapping[str, pd.DataFrame],
    *,
    verdict: Sequence[str] = (),
    notes: Sequence[str],
    as_json: bool,
) -> None:
    """Print a verdict, frames under their titles, and notes; or all of it as one JSON object."""
    if as_json:
        print_json({"notes": [*verdict, *notes], **sections})
        return
    for line in verdict:
        say(line)
    if verdict:
        typer.echo()
    for title, frame in sections.items():
        if frame.empty:
            continue
        if "table" in frame and len(set(frame["table"])) == 1:
            frame = frame.drop(columns="table")
        print_rows(frame, as_json=False, title=title, headings=_HEADINGS)
        typer.echo()
    for note in notes:
        say(note)
