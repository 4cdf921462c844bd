"""The page "Your own search space": its space is installed and goes the whole way."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest
from documents import blocks
from packages import install
from support import PROJECT, json_of, run_here

PAGE = PROJECT / "docs" / "how-to" / "own-space.md"


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rebench.extensions import announced

    (source,) = blocks(PAGE, "python", title="toy_space.py")
    install(tmp_path / "site", "toy_space", source, "rebench.spaces", toy="toy_space:SPACE")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    announced.cache_clear()
    yield
    announced.cache_clear()


def test_page_has_at_most_100_lines_of_text():
    assert len(PAGE.read_text().splitlines()) <= 100


def test_an_own_space_is_trained_ranked_searched_reported_and_exported(space):
    (sweep,) = blocks(PAGE, "toml", title="toy.toml")
    Path("toy.toml").write_text(sweep)
    commands = [line for block in blocks(PAGE, "console") for line in block.splitlines()]
    own = [command.removeprefix("$ rebench ") for command in commands if "toy" in command]
    assert len(own) == 6
    printed = {}
    for command in own:
        done = run_here(*shlex.split(command))
        assert done.returncode == 0, (command, done.stderr)
        printed[command.split()[0]] = done.stdout
    assert "12 networks" in printed["rank"]
    assert printed["query"].startswith("network 2-8")
    assert set(pd.read_csv("toy.csv")["arch"]) == {
        f"{d}-{w}" for d in (1, 2, 3, 4) for w in (4, 8, 16)
    }
    rate = {row["recipe"]: row for row in json_of("query", "toy-run", "3-8")}
    assert set(rate) == {"fixed(lr=0.05)", "topology(base_lr=0.05)"}
    rows = pd.read_parquet("toy-run/results.parquet")
    topology = rows[rows["recipe"] == "topology(base_lr=0.05)"].groupby("arch", observed=True)
    # Depth 1 is the base; three layers have (1 + 3)^-3/2 of the rate relative to (1 + 0)^-3/2.
    rates = topology["learning_rate"].first()
    assert rates["1-4"] > rates["2-4"] > rates["3-4"]
