"""Files that describe the project to other programs: citation, hosted tests, layers of imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from support import PROJECT, project_metadata

from rebench.recipes import recipe_class, recipe_names


def test_citation_is_of_this_version_and_names_the_papers_of_recipes():
    """The keys are those that the Citation File Format 1.2.0 requires."""
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    ours = project_metadata()
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == ours["version"]
    assert citation["license"] == ours["license"]
    assert citation["authors"] == ours["authors"]
    assert citation["message"]
    assert citation["title"] == "rebench"
    cited = set()
    for paper in citation["references"]:
        assert {"type", "title", "authors", "year"} <= set(paper)
        assert all({"family-names", "given-names"} == set(one) or one.get("name")
                   for one in paper["authors"])  # fmt: skip
        for name in set(re.findall(r"[\w-]+", paper["notes"])) & set(recipe_names()):
            cited.add(name)
            said = recipe_class(name).paper
            known_by = paper["authors"][0]["family-names"], paper["title"].split()[0]
            assert any(one in said for one in known_by), name
            assert str(paper["year"]) in said, name
    # Recipes of later papers may, and should, be cited; baselines have no paper.
    assert cited >= {"nb201", "topology", "topology-lr", "topology-init", "topology-exact",
                     "am-mup", "fsc", "mup", "one-step"}  # fmt: skip


def test_hosted_tests_call_what_is_there_on_every_python_we_name():
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "test.yml").read_text())
    job = workflow["jobs"]["test"]
    commands = [step["run"].split()[-1] for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert all(os.access(PROJECT / command, os.X_OK) for command in commands)
    places = {
        (one["os"].split("-")[0], one["python"]) for one in job["strategy"]["matrix"]["include"]
    }
    assert places == {
        (system, python) for system in ("ubuntu", "macos") for python in ("3.10", "3.13")
    }
    named = {one.rpartition(" ")[2] for one in project_metadata()["classifiers"]}
    assert {python for _, python in places} <= named


# Program in a marker `needs`: its Debian package.
PROGRAMS = {
    "chromium": "chromium",
    "g++": "g++",
    "mariadbd": "mariadb-server-core",
    "munged": "munge",
    "sbatch": "slurm-client",
    "setpriv": "util-linux",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
}
# Packages that a package in .ci/packages needs, or that every Debian has.
ALSO_INSTALLED = {
    "mariadb-server-core": "mariadb-server",
    "slurm-client": "slurm-wlm",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "util-linux": "",
}


def test_programs_of_tests_are_installed_by_ci():
    called = r"mark\.needs\(([^*].*?)\)|_SLURM = \((.+)\)"
    sources = [path.read_text() for path in (PROJECT / "tests").rglob("*.py")]
    found = [one for source in sources for pair in re.findall(called, source) for one in pair]
    named = {name for text in found for name in re.findall(r'"([^"]+)"', text)}
    assert named == PROGRAMS.keys()
    by_ci = (PROJECT / ".ci" / "packages").read_text().split()
    for package in PROGRAMS.values():
        assert ALSO_INSTALLED.get(package, package) in ("", *by_ci)


@pytest.mark.skipif(not shutil.which("dpkg"), reason="the table is that of Debian")
def test_programs_of_tests_are_in_the_packages_of_the_table():
    path = f"{os.environ['PATH']}:/usr/sbin"
    for name, package in PROGRAMS.items():
        if place := shutil.which(name, path=path):
            asked = ["dpkg", "-S", f"*bin/{name}*"]
            done = subprocess.run(asked, capture_output=True, text=True, check=True)
            assert f"{package}: " in done.stdout, (place, done.stdout)


def test_layers_are_drawn_as_they_are_enforced():
    told = (PROJECT / "CONTRIBUTING.md").read_text().partition("## The layers")[2]
    drawn = [line[:33].split() for line in told.split("```\n")[1].splitlines()]
    enforced = project_metadata("importlinter")["contracts"][0]["layers"]
    layers = [re.findall(r"\w+", layer.replace("rebench.", "")) for layer in enforced]
    assert drawn == layers
    tops = [*(PROJECT / "rebench").glob("*.py"), *(PROJECT / "rebench").glob("*/__init__.py")]
    names = {path.parent.name if path.stem == "__init__" else path.stem for path in tops}
    names -= {"rebench", "__main__", "shadow"}  # `shadow` is imported before all layers
    assert {*names, "experiments", "cells"} == set().union(*layers)
    packages = {path.parent.name for path in tops if path.stem == "__init__"} - {"rebench"}
    assert set(re.findall(r"^\| `(\w+)` \|", told.partition("Read these")[0], re.MULTILINE)) == {
        *packages, "cells"
    }  # fmt: skip


@pytest.mark.slow
def test_tests_of_one_group_run_in_one_process(tmp_path):
    """The tests of a group share a cluster or a wheel. With pytest 9.2 groups have no effect."""
    (tmp_path / "test_group.py").write_text(
        "import pytest\n"
        "@pytest.mark.xdist_group('one')\n"
        "@pytest.mark.parametrize('number', range(6))\n"
        "def test_it(number, worker_id):\n"
        "    open('workers', 'a').write(worker_id + ' ')\n"
    )
    command = ["-m", "pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, check=True)
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1
