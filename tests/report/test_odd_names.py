"""Names of users in figures and tables: of limited length, and never a formula of matplotlib."""

import re

import pytest
from report_tables import run_table, studied

from rebench.analysis import Choices
from rebench.errors import InputError
from rebench.report.figures.ranking import draw_reranking
from rebench.report.figures.style import label
from rebench.report.write import write_report

SCRIPT = "<script>x</script>"


def _called(name):
    """Return the identifier of a test."""
    return ascii(name[:9])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a$x$b", r"a\$x\$b"),
        ("a\\$b", r"a\\$b"),
        ("a\nb\x00", r"a b\x00"),
        ("x" * 41, "x" * 20 + "…" + "x" * 19),
        ("$" * 40, r"\$" * 40),
    ],
)
def test_name_in_a_figure_is_short_and_no_formula(name, shown):
    assert label(name) == shown


def test_names_that_differ_at_their_end_are_different_in_a_figure():
    variants = [f"conv-count(power={power})" for power in (0.25, 0.5)]
    assert len({label(name, 20) for name in variants}) == 2


@pytest.mark.parametrize("name", ["fixed$^{_{$$", "$\\frac$", "x" * 500], ids=_called)
def test_report_is_written_whatever_a_recipe_and_a_data_set_are_called(tmp_path, name):
    table = run_table(12, dataset=f"../{SCRIPT}{name}"[:500], recipes=("nb201", name))
    path = tmp_path / "table.parquet"
    table.to_parquet(path)
    study = studied(path, Choices(draws=19))
    written = write_report(study, tmp_path / "report")
    for page in (written.html, written.markdown):
        assert re.search(r"(?<!\\)<script>x", page.read_text()) is None
    names = [file.name for file in written.figures.iterdir()]
    assert {name.split("-")[0] for name in names} == {"01"}
    assert max(map(len, names)) < 100
    (reranking,) = study.rerankings
    drawn = draw_reranking(reranking)
    shown = " ".join(text.get_text() for text in drawn.findobj() if hasattr(text, "get_text"))
    assert name[:10].replace("$", r"\$") in shown


@pytest.mark.parametrize("column", ["recipe", "dataset"])
@pytest.mark.parametrize(
    "name", ["a\0b", "a\x1b[2Jb", "a\u202eb", "a\nb", "x" * 200_000], ids=_called
)
def test_name_that_no_page_could_show_is_refused_where_it_comes_in(tmp_path, column, name):
    path = tmp_path / "table{x}.parquet"
    run_table(12).assign(**{column: name}).to_parquet(path)
    rule = r"a text of up to 500 characters, without control characters"
    with pytest.raises(InputError, match=rule) as caught:
        studied(path, Choices(draws=19))
    told = str(caught.value)
    assert told.startswith(f"{path}: row 1, column {column}: must be")
    assert len(told) < 600
    assert told.isprintable()
