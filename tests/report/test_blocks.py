"""What pages are made of: numbers and intervals as they are shown."""

from __future__ import annotations

import pytest

from rebench.report.blocks import number, signed, span


@pytest.mark.parametrize(
    ("low", "high", "digits", "expected"),
    [
        (0.125, 2, 2, "0.12 to 2.00"),
        (0.125, 2, 1, "0.1 to 2.0"),
        (-0.001, 0.001, 2, "0.00 to 0.00"),
        (float("nan"), 1, 2, None),
        (0, float("nan"), 2, None),
        (0, float("inf"), 2, None),
    ],
)
def test_interval_is_shown_whole_or_not_at_all(low, high, digits, expected):
    assert span(low, high, digits) == expected


def test_numbers_have_two_decimal_places_and_no_negative_zero():
    shown = [number(value) for value in (0.125, -0.001, 99_999.5, 1e5, float("nan"))]
    assert shown == ["0.12", "0.00", "99999.50", "1e+05", None]
    assert [signed(value) for value in (0.125, -0.001, -2)] == ["+0.12", "+0.00", "-2.00"]
