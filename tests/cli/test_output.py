"""Printed tables, facts and JSON, character by character."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rebench.cli.output import (
    as_text,
    print_facts,
    print_json,
    print_rows,
    printable,
    say,
    wrapped,
)

NAN = float("nan")


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (NAN, "-"),
        (float("inf"), "-"),
        (9999.0, "9999"),
        (12345.678, "12346"),
        (-20000.4, "-20000"),
        (1e12, "1e+12"),
        (0.000123456, "0.0001235"),
        (123456, "123456"),
        ([1, 0.5, None], "1, 0.5, -"),
        ("a\x1b[1m", "a\\x1b[1m"),
    ],
)
def test_value_is_written_for_readers(value: object, text: str):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1.0, 10.5], ["1.0", "10.5"]),
        ([0.123456, 12.3456], ["0.12", "12.35"]),  # four digits of the largest
        ([0.0123456, 1.23456], ["0.012", "1.235"]),  # no more than three decimals
        ([0.000123456, 1.23456], ["0.0001", "1.2346"]),  # but one digit of the smallest
        ([1234.56, 0.5], ["1234.6", "0.5"]),
        ([0.0, 0.25], ["0.00", "0.25"]),
        ([0.00009, 2.0], ["9e-05", "2"]),  # too far apart for equal decimals
        ([10000.0, 2.5], ["10000", "2.5"]),
        ([1.25, NAN, None], ["1.25", "-", "-"]),
        ([3, 12], ["3", "12"]),
    ],
)
def test_numbers_of_a_column_have_as_many_decimals(values, shown, capsys):
    print_rows([{"x": value} for value in values], as_json=False)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["x", *shown]


def test_table_has_numbers_right_texts_left_and_intervals_after_their_values(capsys):
    rows = [
        {"name": "a", "mean_of": 1.25, "low": 1.0, "high": 1.5, "less": 1, "less low": -0.001,
         "less high": 1, "flow": 1},
        {"name": "bcd", "mean_of": 10.5, "low": NAN, "high": 2.0, "less": 20, "less low": 0.5,
         "less high": 0.75, "flow": 22},
    ]  # fmt: skip
    print_rows(pd.DataFrame(rows), as_json=False, title="a title")
    assert capsys.readouterr().out.splitlines() == [
        "a title",
        "name  mean of  95 %          less  its 95 %      flow",
        "a        1.25  1.00 to 1.50     1  0.00 to 1.00     1",
        "bcd     10.50  -               20  0.50 to 0.75    22",
    ]
    print_rows([], as_json=False, title="jobs")
    print_rows([], as_json=False)
    assert capsys.readouterr().out == "jobs: none\nrows: none\n"


def test_texts_are_wrapped_in_their_column_on_a_narrow_screen(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "16")
    rows = [{"no": 1, "why not": "one two three"}, {"no": 22, "why not": "four"}]
    print_rows(rows, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "no  why not",
        " 1  one two",
        "    three",
        "22  four",
    ]
    print_rows(rows[:1], as_json=False)
    assert capsys.readouterr().out.splitlines() == ["no       1", "why not  one two", "  three"]
    say("one two three four", indent="  ")
    assert capsys.readouterr().out == "  one two three\n  four\n"


def test_facts_have_a_line_each(capsys):
    print_facts({"a": 1.23456789, "longer": None, "c": [1, 2]}, title="facts")
    assert capsys.readouterr().out.splitlines() == [
        "facts",
        "a       1.23457",
        "longer  -",
        "c       1, 2",
    ]
    print_facts({"a": 1, "longer": 2}, aligned=False)
    assert capsys.readouterr().out.splitlines() == ["a  1", "longer  2"]


def test_page_of_json_has_plain_values_and_unique_keys(capsys):
    frame = pd.DataFrame({"top %": [1.5, NAN], "name": ["a", None]})
    page = {
        "a b": np.array([1, 2]),
        "A-B": np.float64("inf"),
        "a_b": Path("x/y"),
        "%": (True, None),
        "frame": frame,
    }
    print_json(page)
    assert json.loads(capsys.readouterr().out) == {
        "a_b": [1, 2],
        "a_b_2": None,
        "a_b_3": "x/y",
        "percent": [True, None],
        "frame": [{"top_percent": 1.5, "name": "a"}, {"top_percent": None, "name": None}],
    }


def test_json_is_indented_by_one_blank(capsys):
    print_rows([{"a b": 1}], as_json=True)
    assert capsys.readouterr().out == '[\n {\n  "a_b": 1\n }\n]\n'


@pytest.mark.parametrize(
    ("control", "shown"),
    [
        ("\x00", "\\x00"),
        ("\x08", "\\x08"),
        ("\x0b", "\\x0b"),
        ("\x1f", "\\x1f"),
        ("\x7f", "\\x7f"),
        ("\x9f", "\\x9f"),
        ("\u202e", "\\u202e"),
        ("\u2066", "\\u2066"),
        ("\t\n ~\xa0", "\t\n ~\xa0"),
    ],
)
def test_control_characters_are_shown(control: str, shown: str):
    assert printable(f"a{control}b") == f"a{shown}b"


def test_interval_is_not_broken_between_lines():
    assert (
        wrapped("tau 0.5 [0.1, 0.9] or -1.0 to 2.0", 12) == "tau 0.5\n[0.1, 0.9]\nor\n-1.0 to 2.0"
    )
