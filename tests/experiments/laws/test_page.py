"""The theory in pages: the verdicts of a folder as Markdown, and a figure for each law."""

from __future__ import annotations

import dataclasses
import re
import shutil

import pandas as pd
import pytest

from experiments.laws.__main__ import main
from experiments.laws.figures import draw_law
from experiments.laws.page import takeaways, theory_page
from experiments.laws.registry import LAWS
from experiments.laws.result import load_results, load_verdicts


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The output folder of `measure depth --out`, with small settings."""
    folder = tmp_path_factory.mktemp("theory")
    settings = dataclasses.replace(LAWS["depth"].small, widths=(16,), depths=(1, 2, 4), draws=20)
    result = LAWS["depth"].measure(settings)
    result.save(folder)
    draw_law(result, folder)
    return folder


def test_page_has_every_verdict_with_its_numbers_and_every_figure(measured):
    page = theory_page(measured)
    rows = pd.read_csv(measured / "depth-verdicts.csv")
    lines = page.replace("\\", "").splitlines()
    for row in rows.itertuples():
        numbers = f"| {row.ours:.3g} [{row.low:.3g}, {row.high:.3g}] | {row.verdict} |"
        assert sum(row.quantity in line and numbers in line for line in lines) == 1
    [image] = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page)
    assert (measured.parent / image).is_file()


def test_section_answers_its_question_before_it_says_how_it_was_measured(measured):
    section = theory_page(measured).partition("### depth")[2].partition("| quantity")[0]
    listed = re.findall("(?m)^- ([A-Za-z]+)", section)
    assert list(dict.fromkeys(listed)) == ["Question", "The", "Answer", "Measured", "Certainty"]


def test_saved_law_opens_as_it_was_and_draws_the_same_figure(measured, tmp_path):
    [loaded] = load_results(measured)
    loaded.save(tmp_path)
    saved = sorted(measured.glob("*.csv"))
    assert len(saved) > 2
    for path in saved:
        assert (tmp_path / path.name).read_text() == path.read_text()
    draw_law(loaded, tmp_path)
    drawn = (tmp_path / "depth.svg").read_text()
    assert drawn == (measured / "depth.svg").read_text()
    assert drawn.count("<path") > 50


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("verdicts", b"\x00\xff\xfe", "depth-verdicts.csv is damaged, no table can be read"),
        ("verdicts", b"", "depth-verdicts.csv is damaged, no table can be read"),
        ("verdicts", b"law,ours\n", "depth-verdicts.csv is damaged, it lacks high, low"),
        ("growth", b"hello\n1\n", "the tables of depth lack 'width'"),
        ("growth", None, "the tables of depth lack 'growth'"),
    ],
)
def test_damaged_file_of_a_folder_is_one_clear_line(
    measured, tmp_path, capsys, name, content, said
):
    for path in measured.glob("*.csv"):
        shutil.copy(path, tmp_path)
    damaged = tmp_path / f"depth-{name}.csv"
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    assert main(["draw", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert "experiments.laws measure depth --out" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("datasets", "said"),
    [
        (["fashion", "fashion"], "searched on fashion, and on CIFAR-10 in the paper"),
        (["cifar10-jpeg", "cifar100"], "searched on cifar100, and on CIFAR-10 in the paper"),
        (["cifar10", "cifar10-jpeg16"], None),
    ],
)
def test_page_says_where_rates_are_of_other_images_than_the_papers(
    measured, tmp_path, datasets, said
):
    rows = pd.read_csv(measured / "depth-verdicts.csv").tail(1)
    rows.to_csv(tmp_path / "dag-verdicts.csv", index=False)
    pd.DataFrame({"dataset": datasets}).to_csv(tmp_path / "dag-rates.csv", index=False)
    page = theory_page(tmp_path)
    assert ("on CIFAR-10 in the paper" in page) == (said is not None)
    assert said is None or said in page


def score(predictor, factor, reach=0.1, gain=0.0):
    values = {"r": 0.5, "factor": factor, "gain": gain}
    ends = {f"{name}_low": value - reach for name, value in values.items()}
    ends |= {f"{name}_high": value + reach for name, value in values.items()}
    return {"experiment": "cells", "predictor": predictor, **values, **ends}


@pytest.mark.parametrize(
    ("factor", "gain", "rule", "calibrated", "recursion"),
    [
        (1.5, 0.0, "No rule is shown to be better", "0 of 1 experiments", "0 of 1"),
        (1.2, 0.0, "No rule is shown to be better", "0 of 1 experiments", "0 of 1"),
        (1.0, 0.3, "eq. 8, L+1 is better", "1 of 1 experiments (cells)", "1 of 1"),
    ],
)
def test_takeaways_follow_from_the_scores(
    measured, tmp_path, factor, gain, rule, calibrated, recursion
):
    rows = [score("eq. 8, L+1", factor), score("exact recursion", 1.6, gain=gain)]
    rows += [score("constant", 1.25), score("perfect rule", 1.0)]
    pd.DataFrame(rows).to_csv(tmp_path / "cells-predictors.csv", index=False)
    answers = takeaways(tmp_path, load_verdicts(measured))
    (depth_line, _), (rated, exact), [cells] = (answers[law] for law in ("depth", "dag", "cells"))
    assert rule in cells
    assert f"has a typical factor of {min(factor, 1.6):.2f}" in cells
    assert cells.endswith("Equation 8 (L+1) has r = 0.50 [0.40, 0.60].")
    assert f"than one rate for all networks in {calibrated}" in rated
    assert f"higher r than equation 8 in {recursion}" in exact
    assert re.search(r"the exponent in depth is -\S+ \[.*\] \(paper: -1.5\)", depth_line)


def test_page_says_of_every_figure_where_it_is_or_how_to_measure_it(measured):
    lines = theory_page(measured).partition("### Results of the papers")[2].splitlines()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.count("|") == 4}
    # Chen et al. have nine figures; figure 1 is a drawing.
    assert all(f"Chen et al., figure {number}" in rows for number in range(2, 10))
    assert "above: depth (Jelassi et al.)" in rows["Jelassi et al., theorem 1.1"]
    assert (
        "not measured here; python -m experiments.laws measure fsc"
        in rows["Chizat and Netrapalli, table 1"]
    )


def test_takeaways_say_how_the_bases_rate_transfers(measured, tmp_path):
    rules = {"eq. 8, L": 2.0, "eq. 8, L+3": 1.5, "eq. 8, L+3, base counted 3": 1.3,
             "path count": 1.4, "constant": 2.5}  # fmt: skip
    rows = [
        {**score(rule, 1.5), "experiment": "graphs", "criterion": criterion,
         "off": off + later, "off_low": off - 0.1, "off_high": off + 0.1}
        for criterion, later in (("average of the epoch", 0), ("end of the epoch", 9))
        for rule, off in rules.items()
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "released-scores.csv", index=False)
    verdicts = load_verdicts(measured)
    row = {"quantity": "r of equation 8, depths as the code counts them: MLP graphs with skips, f",
           "paper": 0.838}  # fmt: skip
    verdicts = pd.concat([verdicts, pd.DataFrame([row])], ignore_index=True)
    [said] = takeaways(tmp_path, verdicts)["released"]
    assert "0.838 for equation 8. We find 0.50 [0.40, 0.60] with depths as in its code" in said
    assert said.endswith(
        "off by a factor of 1.30 [1.20, 1.40] in graphs (one rate for all: 2.50 [2.40, 2.60])."
    )


def test_folder_of_an_older_version_opens_by_the_laws_name_now(measured, tmp_path):
    for path in measured.glob("*.csv"):
        shutil.copy(path, tmp_path / path.name.replace("depth-", "speed-"))
    [loaded] = load_results(tmp_path)
    assert loaded.law == "fsc"
    assert set(load_verdicts(tmp_path)["file"]) == {"fsc"}
