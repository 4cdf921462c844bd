"""The shape of the code: layers are import-linter's; this holds the rest of the manner."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support import PROJECT

TOP_LEVEL = {
    *("pyproject.toml", "README.md", "rebench", "cells", "scripts", "slurm", "notebooks", "tests"),
    *(".ci", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "constraints.txt"),
    *("experiments", "docs", "mkdocs.yml", "CITATION.cff", "MANIFEST.in"),
}
MODULES = sorted(path for top in ("cells", "rebench") for path in (PROJECT / top).rglob("*.py"))


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


def test_top_level_holds_only_what_the_design_names():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=False
    ).stdout.split()
    tops = {name.split("/")[0] for name in listed}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_module_is_described_exported_and_short(path: Path):
    source = path.read_text()
    tree = ast.parse(source)
    assert ast.get_docstring(tree), "a module says what it is for"
    assert source.count("\n") <= 325, "one idea per module, about 300 lines"
    if path.name == "__main__.py":
        return
    exported = _exported(tree)
    assert exported is not None, "__all__ is missing"
    if path.name != "__init__.py" and "/cli/" not in str(path):
        missing = _public(tree) - set(exported)
        assert not missing, f"public but not in __all__: {missing}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_exported_names_exist(path: Path):
    if path.name == "__main__.py":
        return
    tree = ast.parse(path.read_text())
    bound = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.Import | ast.ImportFrom)
            else [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [node.id]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            else []
        )
    }
    assert set(_exported(tree) or ()) <= bound


def test_no_dumping_grounds():
    assert not [path for path in MODULES if path.stem in {"utils", "helpers", "common", "misc"}]


@pytest.mark.parametrize("module", ["cells", "rebench.cli", "rebench.sweep", "rebench.store"])
def test_light_modules_import_without_torch(module: str):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_errors_are_all_in_the_docstring_tree():
    from rebench import errors

    for name in errors.__all__:
        assert name in (errors.__doc__ or "")
