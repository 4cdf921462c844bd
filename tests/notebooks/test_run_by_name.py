"""The script that runs the notebooks finds them by name."""

from __future__ import annotations

import pytest
from run_notebooks import NOTEBOOKS, main, named


@pytest.mark.parametrize(
    "name",
    ["01_query_reranked", "01_query_reranked.ipynb", str(NOTEBOOKS[0])],
    ids=["name", "file", "path"],
)
def test_notebook_is_found_by_its_name_with_and_without_suffix(name):
    assert named(name) == NOTEBOOKS[0]


def test_unknown_notebook_is_answered_in_one_line_that_lists_them_all(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["01_query"])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "'01_query'" in line
    assert all(path.stem in line for path in NOTEBOOKS)
