"""Numbers, intervals and p-values as texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rebench.printable import (
    is_number,
    number,
    probability,
    signed,
    span,
    without_formulas,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.125, "0.12"),
        (-0.001, "0.00"),
        (99_999.5, "99999.50"),
        (1e5, "1e+05"),
        (np.float32(0.5), "0.50"),
        (np.int64(3), "3.00"),
        (NAN, None),
        (None, None),
        ("0.5", None),
    ],
)
def test_number_has_two_decimals_and_no_negative_zero(value: object, text: str | None):
    assert number(value) == text


def test_difference_has_a_sign():
    assert [signed(value) for value in (0.125, -0.001, -2)] == ["+0.12", "+0.00", "-2.00"]


@pytest.mark.parametrize(
    ("low", "high", "digits", "text"),
    [
        (0.125, 2, 2, "0.12 to 2.00"),
        (0.125, 2, 1, "0.1 to 2.0"),
        (-0.001, 0, 2, "-0.001 to 0"),
        (0, 0, 2, "0 to 0"),
        (NAN, 1, 2, None),
        (1, float("inf"), 2, None),
        (None, 1, 2, None),
    ],
)
def test_interval_has_both_ends_or_is_none(low, high, digits, text):
    assert span(low, high, digits) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0009, "< 0.001"), (0.001, "0.001"), (0.0496, "0.050"), (1, "1.000")]
)
def test_p_value_has_three_decimals(value: float, text: str):
    assert probability(value) == text


def test_numbers_are_distinguished_from_other_texts():
    assert all(map(is_number, ("-0.5", "1,024", "5 %", "< 0.001", "1e-05", "-", "0.19*")))
    assert not any(map(is_number, ("", "0.1 to 0.2", "777, 888", "a", "--")))


@pytest.mark.parametrize("kind", [object, "category"])
def test_formulas_become_texts_and_other_values_stay(kind):
    texts = ["=1", "+1", "-1", "@a", "\ta", "\ra", "\na", "a=1", "", None]
    frame = pd.DataFrame({"=a": pd.Series(texts, dtype=kind), "b": -1.5, "c": -1, "d": [[1]] * 10})
    safe = without_formulas(frame)
    assert list(safe) == ["'=a", "b", "c", "d"]
    assert safe["'=a"].tolist()[:9] == [*(f"'{text}" for text in texts[:7]), "a=1", ""]
    assert safe["'=a"].isna().tolist() == [False] * 9 + [True]
    pd.testing.assert_frame_equal(safe[["b", "c", "d"]], frame[["b", "c", "d"]])
    assert list(frame) == ["=a", "b", "c", "d"]
