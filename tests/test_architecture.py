"""Structure of the code: rules that import-linter, which checks the layers, does not check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support import PROJECT

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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_exported_names_exist(path: Path):
    if path.name == "__main__.py":
        return
    tree = _names(path)
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


@pytest.mark.parametrize("module", ["cells", "rebench.cli", "rebench.data.spec", "rebench.runs"])
def test_light_modules_import_without_torch(module: str):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_errors_are_all_in_the_docstring_tree():
    from rebench import errors

    for name in errors.__all__:
        assert name in (errors.__doc__ or "")
