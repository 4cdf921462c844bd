"""List of the public names: a change of the list is a change for users."""

from __future__ import annotations

import importlib
import pkgutil
import pydoc
import re

import pytest
from support import PROJECT, python

import rebench
from cells import Cell
from rebench.recipes import make_recipe

# Names that users type after `rebench.`.
NAMES = [
    "Cell",
    "ReBench",
    "Table",
    "Trial",
    "__version__",
    "collect",
    "compare",
    "lr",
    "network",
    "open",
    "plan",
    "space",
    "status",
    "submit",
]
# The packages that the pages on Python describe.
PACKAGES = ["cells", *sorted(
    f"rebench.{path.stem}"
    for path in (PROJECT / "docs" / "reference" / "python").glob("*.md")
    if (PROJECT / "rebench" / path.stem).is_dir()
)]  # fmt: skip


def test_public_names_are_these():
    assert dir(rebench) == NAMES
    assert [name for name in NAMES if not hasattr(rebench, name)] == []


def test_every_documented_name_needs_no_import_but_rebench():
    """One new interpreter for all names.

    Before each name its package is forgotten: the import of another name may have loaded it.
    """
    documented = [*NAMES]
    for package in PACKAGES[1:]:
        loaded = importlib.import_module(package)
        documented += [f"{package.removeprefix('rebench.')}.{name}" for name in loaded.__all__]
    code = f"""
import operator, rebench
for name in {documented}:
    vars(rebench).pop(name.partition(".")[0], None)
    operator.attrgetter(name)(rebench)
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_help_is_one_page():
    page = pydoc.render_doc(rebench, renderer=pydoc.plaintext)
    assert len(page.splitlines()) < 60
    assert all(name in page for name in NAMES if name != "__version__")


@pytest.mark.parametrize("module", PACKAGES)
def test_public_names_are_there(module: str):
    loaded = importlib.import_module(module)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert set(loaded.__all__) <= set(dir(loaded))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_also_a_module(package: str):
    """An import of the module would replace the function of the same name."""
    loaded = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(loaded.__path__)}
    assert modules.isdisjoint(loaded.__all__)


@pytest.mark.parametrize("module", ["rebench.data", "rebench.search"])
def test_dir_shows_public_names_only(module: str):
    code = f"import {module}, rebench.train, rebench.search.run; print(*dir({module}))"
    shown = python("-c", code)
    assert shown.stdout.split() == sorted(importlib.import_module(module).__all__)


def test_unknown_name_is_said():
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = rebench.opne


@pytest.mark.parametrize("cell", [11, "11", Cell.from_index(11), str(Cell.from_index(11))])
def test_learning_rate_takes_whatever_names_a_cell(cell):
    """Cell 11 has paths of 1, 1 and 2 convolutions: 2^3 + 2^3 + 3^3 = 43; the rule is 43^(-1/2)."""
    assert rebench.lr(cell, "topology(base_lr=1)") == pytest.approx(43**-0.5)
    made = make_recipe("topology", base_lr=1)
    assert rebench.lr(cell, made) == rebench.lr(cell, "topology(base_lr=1)")
    assert rebench.lr(cell, "nb201") == 0.1
    if not isinstance(cell, str):
        assert rebench.lr("nb201", cell) == 0.1


def test_every_class_variable_has_a_type():
    """On Python 3.10, pydantic raises an error for a ``ClassVar`` without a type, at import."""
    bare = re.compile(r": ClassVar\b(?!\[)")
    sources = [path for top in ("cells", "rebench") for path in (PROJECT / top).rglob("*.py")]
    assert [str(path) for path in sources if bare.search(path.read_text())] == []
