"""Tables on narrow screens: arranged, and whole."""

from __future__ import annotations

from rebench.cli.output import ScreenColumn, fit, wrapped


def _column(heading: str, *texts: str) -> ScreenColumn:
    return ScreenColumn(heading=heading, texts=texts)


def test_table_that_fits_stays_as_it_is():
    columns = [_column("a", "1", "2"), _column("state", "done", "done")]
    fitted = fit(columns, 8)  # 1 + 2 + 5
    assert [each.natural for each in fitted.tables[0]] == [1, 5]
    assert not fitted.same


def test_single_row_that_does_not_fit_is_written_downwards():
    fitted = fit([_column("a", "1"), _column("state", "done")], 7)
    assert fitted.same == (("a", "1"), ("state", "done"))
    assert fitted.tables == ()


def test_equal_columns_are_printed_once():
    fitted = fit([_column("a", "1", "2"), _column("state", "done", "done")], 7)
    assert fitted.same == (("state", "done"),)
    assert [each.heading for each in fitted.tables[0]] == ["a"]


def test_texts_get_several_lines_and_no_word_is_broken():
    why = _column("why", "one two three four", "three four five six")
    [table] = fit([_column("a", "1", "2"), why], 20).tables
    assert [each.texts for each in table] == [
        ("1", "2"),
        ("one two three\nfour", "three four five\nsix"),
    ]


def test_columns_move_closer_before_a_second_table_is_begun():
    columns = [_column(name, "12345678", "x") for name in ("first", "other", "last")]
    assert fit(columns, 28).gap == 2
    fitted = fit(columns, 27)
    assert fitted.gap == 1
    assert [[each.natural for each in table] for table in fitted.tables] == [[8, 8, 8]]


def test_columns_that_do_not_fit_are_in_a_second_table_with_the_first_column():
    columns = [_column(name, "12345678", "x") for name in ("first", "other", "last", "more")]
    fitted = fit([_column("a", "1", "2"), *columns], 27)
    assert fitted.gap == 2
    assert [[each.heading for each in table] for table in fitted.tables] == [
        ["a", "first", "other"],
        ["a", "last", "more"],
    ]


def test_a_column_is_narrowed_by_the_missing_width_only():
    columns = [_column("a", "1", "2"), _column("why", "aaaa bbbbb cccc", "x")]
    [(_, narrowed)] = fit(columns, 13).tables  # 1 + 2 + 10
    assert narrowed.texts == ("aaaa bbbbb\ncccc", "x")


def test_words_that_are_longer_than_the_screen_stay_whole():
    columns = [_column("a", "1", "2"), _column("word", "12345678", "1234 678")]
    [table] = fit(columns, 5).tables
    assert [each.natural for each in table] == [1, 8]
    assert table[1].texts == ("12345678", "1234 678")


def test_wrapped_keeps_long_words_and_lines():
    assert wrapped("a bc /long/word\nx", 4, indent=" ") == "a bc\n /long/word\nx"
    assert wrapped("ab one-two", 7) == "ab\none-two"
