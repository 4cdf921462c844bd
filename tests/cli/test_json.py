"""``--json`` of every command: keys without blanks, numbers as numbers, missing as null."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lines import ELSEWHERE, LINES, SLOW, all_commands, words

from rebench.cli import main

# Texts that may look like a number: ids and digests, a cell's code, a version, and integers of the
# whole network, which `cells` keeps as texts because they have no bound.
_TEXTS = {"trial", "trial_id", "code", "sha256", "spec_hash", "sha256_of_records", "found"}
_TEXTS |= {"network_paths", "network_sum_cubed_depths"}


def _pairs(page: object) -> Iterator[tuple[str, object]]:
    if isinstance(page, dict):
        for name, value in page.items():
            yield name, value
            yield from _pairs(value)
    elif isinstance(page, list):
        for value in page:
            yield from _pairs(value)


def test_every_command_with_json_is_tested_here():
    with_json = {
        name for name, command in all_commands() if any("--json" in p.opts for p in command.params)
    }
    typed = {name.partition(" --")[0] for name in LINES | SLOW}
    assert with_json == typed | ELSEWHERE


@pytest.mark.parametrize(
    "name", [*LINES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_keys_are_words_and_numbers_are_numbers(name: str, folder: Path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    typed = words(name)
    capsys.readouterr()
    code = main([*typed, "--json"])
    shown = capsys.readouterr()
    assert code in ((0, 1) if name == "doctor" else (0,)), shown.err
    page = json.loads(shown.out)
    assert page
    for key, value in _pairs(page):
        # `train` prints a record as in a shard, in which the name of a split is a key.
        assert re.fullmatch("[a-z0-9_]+", key) or (name == "train" and key == "ori-test"), key
        if isinstance(value, str) and key not in _TEXTS:
            assert not re.fullmatch(r"[-+]?\d*\.?\d+(e[-+]?\d+)?|nan|-|<NA>|", value), (key, value)
