"""Structure of the code: rules that import-linter, which checks the layers, does not check."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support import PROJECT, python

MODULES = sorted(path for top in ("cells", "rebench") for path in (PROJECT / top).rglob("*.py"))


def _names(path: Path) -> ast.Module:
    """Return the file with a module's names: its stub, if the names are loaded on demand."""
    stub = path.with_suffix(".pyi")
    return ast.parse((stub if stub.is_file() else path).read_text())


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and "__all__" in ast.unparse(node).split("=")[0]
        ):
            return ast.literal_eval(node.value)
    return None


def _public(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_module_is_described_and_exported(path: Path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "a module says what it is for"
    if path.name == "__main__.py":
        return
    exported = _exported(_names(path))
    assert exported is not None, "__all__ is missing"
    if path.name != "__init__.py" and "/cli/" not in str(path):
        missing = _public(tree) - set(exported)
        assert not missing, f"public but not in __all__: {missing}"


RULES = (
    "from cells import Cell; from rebench.recipes import *;"
    "[make_recipe(name).hyperparameters(Cell.from_index(11)) for name in recipe_names()]"
)
PACKAGES = "tables train nats launch search analysis report cli data"
PLANNER = {*(f"rebench.{name}" for name in PACKAGES.split()), "pandas", "pyarrow", "scipy"}


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("import rebench", {"torch", "pandas", "pyarrow", "pydantic", "matplotlib", "numpy"}),
        ("import cells", {"torch"}),
        ("import rebench.cli", {"torch"}),
        ("import rebench.data.spec", {"torch"}),
        ("import rebench.runs", {"torch"}),
        ("import rebench.tables.opening", {"pandas"}),
        ("import rebench.modules; rebench.modules.plan", PLANNER | {"matplotlib"}),
        (RULES, {"torch"}),
    ],
)
def test_modules_load_nothing_that_they_do_not_need(code: str, unneeded: set[str]):
    done = python("-c", f"{code}; import sys; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    assert unneeded.isdisjoint(done.stdout.split())


def test_errors_are_all_in_the_docstring_tree():
    from rebench import errors

    for name in errors.__all__:
        assert name in (errors.__doc__ or "")
