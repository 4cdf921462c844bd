"""The names that people may rely on, written out: a change here is a change for users."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest
from support import PROJECT

import rebench
from cells import Cell

PUBLIC = {
    "cells": [
        "EDGES",
        "OP_NAMES",
        "SPACE_SIZE",
        "Cell",
        "CellError",
        "Cost",
        "CostModel",
        "DagCode",
        "Graph",
        "Network",
        "Space",
        "all_cells",
        "compile_network",
        "compile_space",
        "functional_classes",
        "moment",
        "trainable_networks",
    ],
    "rebench": [
        "Cell",
        "ReBench",
        "Table",
        "Trial",
        "__version__",
        "collect",
        "lr",
        "open",
        "rank",
        "space",
        "status",
        "submit",
        "train",
    ],
    "rebench.analysis": [
        "MIN_CELLS",
        "TOP_PERCENT",
        "Accuracies",
        "Choices",
        "Reranking",
        "SeedNoise",
        "Study",
        "cell_means",
        "contrasts",
        "gap_counts",
        "gaps",
        "improvement",
        "improvement_by",
        "noise_curve",
        "pair",
        "rank_agreement",
        "read_accuracies",
        "regression",
        "rerank",
        "seed_agreement",
        "seed_test",
        "split_agreement",
        "study",
        "top_cells",
        "verdict",
    ],
    "rebench.data": [
        "BatchSource",
        "Images",
        "RawData",
        "TrainingData",
        "data_root",
        "derived_halves",
        "draw_epoch",
        "epoch_generator",
        "fetch",
        "file_states",
        "is_present",
        "load_data",
        "read_raw",
        "split_data",
    ],
    "rebench.datasets": [
        "BENCHMARK",
        "Archive",
        "DataSpec",
        "ExpectedFile",
        "benchmark_data",
        "data_spec",
        "data_specs",
    ],
    "rebench.nats": [
        "Choice",
        "ReBench",
        "create",
        "export_naslib",
        "export_nats",
        "export_pth",
        "export_syne_tune",
    ],
    "rebench.nets": [
        "DagCNN",
        "DagMLP",
        "DagNet",
        "Layer",
        "LayeredNet",
        "Role",
        "Stacked",
        "TinyNet",
        "reference_net",
    ],
    "rebench.recipes": [
        "BASE_CODE",
        "BENCHMARK_LR",
        "DEFAULT_BASE_LR",
        "Architecture",
        "Count",
        "HyperParameters",
        "LayerInit",
        "NoPathError",
        "Positive",
        "Recipe",
        "default_init",
        "degree_init",
        "edge_degree",
        "exact_maximal_lr",
        "he_init",
        "learning_rate",
        "make_recipe",
        "mean_field_readout",
        "parse_recipe",
        "recipe_class",
        "recipe_names",
        "register",
        "require_path",
    ],
    "rebench.report": [
        "Written",
        "write_report",
    ],
    "rebench.search": [
        "Budget",
        "Fidelity",
        "Problem",
        "Query",
        "Run",
        "SearchSpace",
        "SearchTable",
        "Searcher",
        "algorithm_names",
        "describe",
        "make_searcher",
        "paper_budget",
        "register",
        "replay",
        "search_table",
    ],
    "rebench.store": [
        "Cost",
        "Curve",
        "Finished",
        "FinishedTrials",
        "Loaded",
        "Outcome",
        "Provenance",
        "Record",
        "RecordWriter",
        "ShardReader",
        "ShardWriter",
        "atomic_file",
        "collect_provenance",
        "job_name",
        "load_records",
        "now",
        "quarantine",
        "write_atomically",
    ],
    "rebench.sweep": [
        "GUESS",
        "Expansion",
        "Job",
        "Plain",
        "Protocol",
        "RecipeSpec",
        "Skeleton",
        "Skipped",
        "SlurmOptions",
        "SweepSpec",
        "TimeModel",
        "Trial",
        "TypeOptions",
        "choose_cells",
        "example",
        "expand",
        "fit_times",
        "group",
        "group_seconds",
        "pack",
        "pack_types",
        "parse_setting",
        "parse_spec",
        "read_settings",
        "read_spec",
        "with_settings",
    ],
    "rebench.tables": [
        "CellCost",
        "CellName",
        "CurveArrays",
        "Key",
        "Summary",
        "Table",
        "cell_index",
        "open_table",
        "write_table",
    ],
    "rebench.theory": [
        "Estimate",
        "LawResult",
        "Pieces",
        "Verdict",
        "load_results",
        "load_verdicts",
        "measure_alignment_law",
        "measure_am_mup_law",
        "measure_cell_law",
        "measure_dag_law",
        "measure_depth_law",
        "measure_feature_updates",
        "measure_released_law",
        "measure_speed_law",
        "spectral_moments",
        "verdict_table",
    ],
    "rebench.train": [
        "Checkpoint",
        "CheckpointStore",
        "EpochReport",
        "Interrupted",
        "Sources",
        "Speed",
        "Stack",
        "StackRun",
        "StackedSGD",
        "build_net",
        "pick_stack_size",
        "rate_factor",
        "train",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these(module: str):
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_there(module: str):
    loaded = importlib.import_module(module)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert set(loaded.__all__) <= set(dir(loaded))


def test_importing_rebench_loads_nothing_heavy():
    heavy = "{'torch', 'pandas', 'pyarrow', 'pydantic', 'matplotlib', 'numpy'}"
    code = f"import sys, rebench; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_importing_tables_loads_no_pandas():
    code = "import sys, rebench.tables.opening; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_function_is_found_after_its_module_of_the_same_name_was_imported():
    module = importlib.import_module("rebench.analysis.gaps")
    assert importlib.import_module("rebench.analysis").gaps is module.gaps


def test_train_is_a_function_after_its_package_was_imported():
    assert importlib.import_module("rebench.train").train([]) == rebench.train([]) == []


def test_unknown_name_is_said():
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = rebench.opne


@pytest.mark.parametrize("cell", [11, "11", Cell.from_index(11), str(Cell.from_index(11))])
def test_learning_rate_takes_whatever_names_a_cell(cell):
    """Cell 11 has paths of 1, 1 and 2 convolutions: 2^3 + 2^3 + 3^3 = 43; the rule is 43^(-1/2)."""
    assert rebench.lr(cell, "topology(base_lr=1)") == pytest.approx(43**-0.5)
    assert rebench.lr(cell, "nb201") == 0.1


def test_every_class_variable_has_a_type():
    """Of a bare ``ClassVar`` pydantic makes an error on Python 3.10, at import."""
    bare = re.compile(r": ClassVar\b(?!\[)")
    sources = [path for top in ("cells", "rebench") for path in (PROJECT / top).rglob("*.py")]
    assert [str(path) for path in sources if bare.search(path.read_text())] == []
