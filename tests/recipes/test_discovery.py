"""A recipe in a package of a user is found, and a wrong package is named."""

import json
import textwrap
from pathlib import Path

from packages import install
from support import PROJECT, python

RULE = '''
"""A rule of a user: half the base rate for every graph."""

import dataclasses
from typing import ClassVar

from rebench.recipes import HyperParameters, Positive, Recipe, default_init, register


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Half(Recipe):
    """Half a learning rate."""

    name: ClassVar[str] = "{name}"
    summary: ClassVar[str] = "half of lr"
    paper: ClassVar[str] = "none"

    lr: Positive = 0.5

    def hyperparameters(self, cell):
        return HyperParameters(learning_rate=self.lr / 2)

    def layer_init(self, layer, cell):
        return default_init(layer)
'''


def test_taken_name_is_refused_where_it_is_asked_for(tmp_path: Path):
    install(tmp_path, "my_rules", RULE.format(name="topology"), "rebench.recipes", mine="my_rules")
    code = textwrap.dedent("""
        from rebench.errors import InputError
        from rebench.recipes import make_recipe
        assert make_recipe("nb201").name == "nb201"
        try:
            make_recipe("topology")
        except InputError as error:
            print(error)
    """)
    found = python("-c", code, path=[PROJECT, tmp_path])
    assert found.stdout.strip() == (
        "recipe 'topology' is defined by my_rules.Half and by rebench.recipes.topology.Topology:"
        " rename a class or uninstall its package"
    )


def test_class_that_is_defined_again_replaces_itself():
    # The code runs twice, as if the cell of a notebook is run again.
    code = textwrap.dedent(f"""
        from rebench.recipes import make_recipe
        source = {RULE.format(name="half")!r}
        exec(source)
        exec(source.replace("self.lr / 2", "self.lr / 4"))
        assert make_recipe("half", lr=1.0).hyperparameters(None).learning_rate == 0.25
    """)
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_package_that_ends_its_process_is_named_and_left_out(tmp_path: Path):
    install(tmp_path, "my_exit", "raise SystemExit(7)", "rebench.recipes", mine="my_exit")
    listed = python("-m", "rebench", "recipe", "list", "--json", path=[PROJECT, tmp_path])
    assert listed.returncode == 0
    assert "topology" in {row["recipe"] for row in json.loads(listed.stdout)}
    assert listed.stderr == (
        "rebench: warning: my-exit adds mine = my_exit to rebench.recipes; it cannot be loaded"
        " (SystemExit: 7) and is ignored: update or uninstall that package\n"
    )
