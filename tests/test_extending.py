"""A recipe, an algorithm, a data set and a column, added as the page on extending says.

The page's blocks are added to a copy of the project. The tests of this copy must then pass.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from documents import blocks
from support import PROJECT, python

PAGE = PROJECT / "docs" / "how-to" / "extend.md"
COPIED = (".ci", ".github", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "cells",
          "docs", "experiments", "pyproject.toml", "rebench", "scripts", "tests")  # fmt: skip
# Test files that test everything registered or listed. Of some only the tests of the additions run.
SUITES = ("recipes/test_contract.py", "search/test_algorithms.py", "data/test_splits.py",
          "tables/test_collected.py", "runs/test_results.py", "report/test_figures_search.py",
          "test_architecture.py", "test_project_files.py",
          "tables/test_every_column.py", "train/test_weights.py")  # fmt: skip
SELECTED = "not test_every_column and not test_weights or peak_memory_mib or fewer-paths"
SWEEP = """
datasets = ["lines"]
recipes = ["fewer-paths(base_lr=0.4)"]
seeds = [0]
epochs = 1
[cells]
indices = [11]
[skeleton]
channels = 2
cells_per_stage = 1
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("extending")]


def _append(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text()}\n{text}")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project; each code block of `extend.md` is in the file that the page names."""
    root = tmp_path_factory.mktemp("extended")
    for name in COPIED:
        if (PROJECT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / name, root / name, ignore=ignored)
        else:
            shutil.copy(PROJECT / name, root / name)
    for package, module in (("recipes", "my_recipes.py"), ("search", "my_algorithms.py")):
        (root / "rebench" / package / module).write_text(*blocks(PAGE, "python", title=module))
    for listed in ("rebench/data/datasets.toml", "rebench/tables/columns.toml"):
        _append(root / listed, *blocks(PAGE, "toml", title=listed))
    readers = root / "rebench" / "data" / "readers.py"
    before, name, after = readers.read_text().partition("READERS: Final")
    [function] = blocks(PAGE, "python", title="rebench/data/readers.py")
    line = '"lines": _read_lines,'
    assert f"`{line}`" in PAGE.read_text()
    after = after.replace("    {\n", f"    {{\n        {line}\n", 1)
    readers.write_text(f"{before}{function}\n\n{name}{after}")
    return root


def _run(root: Path, *arguments: str, **variables: str) -> str:
    # A relative REBENCH_SHARED_DATA counts from this project, not from its copy.
    variables["REBENCH_SHARED_DATA"] = ""
    done = python("-m", *arguments, folder=root, path=[root], **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_additions_work_together(extended: Path, tmp_path: Path):
    (tmp_path / "lines").mkdir()
    rows = [f"{'train' if n < 20 else 'test'},{n % 10},{','.join(['7'] * 48)}" for n in range(30)]
    (tmp_path / "lines" / "lines.csv").write_text("\n".join(rows))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    run, root = str(tmp_path / "run"), {"REBENCH_DATA": str(tmp_path)}
    sweep = str(tmp_path / "sweep.toml")
    _run(extended, "rebench", "submit", sweep, "--run", run, "--cluster", "debug", **root)
    _run(extended, "rebench", "collect", run)
    sql = "select recipe, dataset, peak_memory_mib > 1 as measured from results limit 1"
    [row] = json.loads(_run(extended, "rebench", "query", run, "--sql", sql, "--json"))
    assert row == {"recipe": "fewer-paths(base_lr=0.4)", "dataset": "lines", "measured": True}
    searched = ["mini@topology", "--evaluations", "5", "--json"]
    assert json.loads(_run(extended, "rebench", "search", "run", "climb", *searched))


def test_the_suites_of_the_copy_pass(extended: Path):
    quick = ["-v", "-x", "-p", "no:cacheprovider", "-m", "not slow", "-k", SELECTED]
    printed = _run(extended, "pytest", *quick, *(f"tests/{path}" for path in SUITES))
    assert [path for path in SUITES if f"tests/{path}::" not in printed] == []
