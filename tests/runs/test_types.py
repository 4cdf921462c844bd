"""Types of device in one sweep: the options of their jobs, and the trials of each type."""

import collections
import math

import pytest
from made_records import SWEEP

from rebench.errors import InputError
from rebench.runs import (
    RecipeSpec,
    SlurmOptions,
    SweepSpec,
    TimeModel,
    Trial,
    group,
    pack,
    pack_types,
    parse_spec,
    with_settings,
)

TYPES = """
[slurm]
time_min = 100
account = "us"
[slurm.types.a]
partition = "pa"
speed = 2
share = 3
[slurm.types.b]
partition = "pb"
time_min = 7
"""


def _options(**shares: float) -> SlurmOptions:
    return SlurmOptions(types={name: {"share": share} for name, share in shares.items()})


def _trial(cell: int, dataset: str = "cifar10", recipe: str = "nb201", seed: int = 777) -> Trial:
    return Trial(cell=cell, dataset=dataset, recipe=RecipeSpec(name=recipe), seed=seed)


def test_type_says_what_differs_and_has_the_rest_of_the_table():
    options = parse_spec(SWEEP + TYPES).slurm.by_type
    assert {name: (one.partition, one.time_min, one.account) for name, one in options.items()} == {
        "a": ("pa", 100, "us"),
        "b": ("pb", 7, "us"),
    }
    assert not any(one.types for one in options.values())
    plain = parse_spec(SWEEP).slurm
    assert plain.by_type == {"": plain}


def test_types_are_the_same_after_being_stored():
    spec = parse_spec(SWEEP + TYPES)
    stored = SweepSpec.model_validate_json(spec.model_dump_json())
    assert stored == spec
    assert stored.slurm.by_type == spec.slurm.by_type


def test_all_runs_of_a_cell_on_a_data_set_are_of_one_type():
    options = _options(a=1, b=1)
    homes = {
        options.type_of(_trial(11, "cifar100", recipe, seed))
        for recipe in ("nb201", "topology")
        for seed in (777, 888, 999)
    }
    assert len(homes) == 1
    datasets = ("cifar10", "cifar100", "ImageNet16-120")
    drawn = {tuple(options.type_of(_trial(cell, one)) for one in datasets) for cell in range(200)}
    assert len(drawn) == 2**3, "data sets of one cell are drawn apart"


def test_types_get_their_shares():
    options = _options(a=3, b=1, c=1)
    counts = collections.Counter(options.type_of(_trial(cell)) for cell in range(2000))
    for name, probability in {"a": 0.6, "b": 0.2, "c": 0.2}.items():
        deviation = math.sqrt(2000 * probability * (1 - probability))
        assert abs(counts[name] - 2000 * probability) < 4 * deviation


def test_types_stay_what_they_are_in_every_version():
    """Unfinished runs rely on the choice of types, so it must not change between versions."""
    for options in (_options(a=1, b=2), _options(b=2, a=1)):
        assert "".join(options.type_of(_trial(cell)) for cell in range(16)) == "abbabbabbaabbaab"


def test_type_that_is_added_moves_nothing_between_the_others():
    before, after = _options(a=1, b=2), _options(a=1, b=2, c=1)
    moves = {(before.type_of(_trial(cell)), after.type_of(_trial(cell))) for cell in range(500)}
    assert moves == {("a", "a"), ("b", "b"), ("a", "c"), ("b", "c")}


def test_jobs_of_each_type_are_packed_by_its_own_times():
    model = TimeModel(per_gflop_s=0.0, per_layer_s=1e-3, source="")
    options = SlurmOptions(
        array_parallelism=1, types={"a": {"time_min": 60, "speed": 2}, "b": {"time_min": 600}}
    )
    groups = group([_trial(cell) for cell in range(100)], 1)
    packed = pack_types(groups, model, options)
    assert list(packed) == ["a", "b"]
    for name, limit_min in (("a", 60), ("b", 600)):
        own = [one for one in groups if options.type_of(one[0]) == name]
        times = model.faster({"a": 2, "b": 1}[name])
        assert packed[name] == pack(own, times, limit_s=limit_min * 60, parallelism=1)
        assert len(packed[name]) > 1
    assert sum(len(job.groups) for jobs in packed.values() for job in jobs) == 100


def test_type_is_held_against_what_all_share():
    text = SWEEP + TYPES + "cuda_graphs = true\n"
    assert parse_spec(text).slurm.of("b").cuda_graphs
    with pytest.raises(InputError, match=r"types\.b: CUDA graphs need a GPU"):
        parse_spec(text + 'device = "cpu"\n')


def test_setting_of_what_some_types_leave_open_is_for_these():
    changed = with_settings(parse_spec(SWEEP + TYPES), {"slurm.time_min": 9})
    assert {name: one.time_min for name, one in changed.slurm.by_type.items()} == {"a": 9, "b": 7}
