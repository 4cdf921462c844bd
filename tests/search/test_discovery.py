"""An algorithm in a new file, ours or another package's, is found without editing any other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packages import install
from support import PROJECT

from rebench.tables import open_table

DESCENDING = '''
"""Cells from the last index down."""
from rebench.search import Query, Searcher, register


@register("descending")
class Descending(Searcher):
    """Train the cells from the last index down."""

    turn = 0

    def ask(self):
        self.turn += 1
        return Query(len(self.space) - self.turn, self.problem.signal)

    def tell(self, query, value):
        pass
'''
RUN = ["search", "run", "descending", "mini@topology", "--evaluations", "3", "--json"]


def _python(code: str, *path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(map(str, (PROJECT, *path))), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _command(arguments: list[str]) -> str:
    return f"import sys; from rebench.cli import main; sys.exit(main({arguments!r}))"


def test_a_package_of_the_users_adds_an_algorithm_by_its_entry_point(tmp_path: Path):
    install(tmp_path, "descending", DESCENDING, "rebench.algorithms", mine="descending")
    found = json.loads(_python(_command(RUN), tmp_path))
    assert found["answers"][0]["evaluations"] == 3
    assert found["answers"][0]["cell"] in open_table("mini@topology").group().index[-3:]
    listed = json.loads(_python(_command(["search", "list", "--json"]), tmp_path))
    assert listed[-1] == {
        "algorithm": "descending",
        "what_it_does": "Train the cells from the last index down.",
    }


@pytest.mark.slow
def test_one_new_file_in_the_package_adds_an_algorithm(tmp_path: Path):
    """The test adds a folder to the path of the package `rebench.search`, instead of a file."""
    (tmp_path / "descending.py").write_text(DESCENDING)
    extended = f"import rebench.search; rebench.search.__path__.append({str(tmp_path)!r}); "
    found = json.loads(_python(extended + _command(RUN)))
    assert found["answers"][0]["evaluations"] == 3


def test_finding_the_algorithms_does_not_import_torch():
    code = "import sys; from rebench.search import algorithm_names; algorithm_names(); "
    assert _python(code + "print('torch' in sys.modules)").strip() == "False"
