"""What is to be trained: trials, and the sweeps they come from."""

from rebench.sweep.garbage import garbage_search_paused
from rebench.sweep.options import SlurmOptions, TypeOptions
from rebench.sweep.plan import (
    GUESS,
    Job,
    TimeModel,
    fit_times,
    group,
    group_seconds,
    guess_cpu,
    pack,
    pack_types,
)
from rebench.sweep.sample import Expansion, Skipped, choose_cells, expand
from rebench.sweep.spec import (
    SweepSpec,
    example,
    parse_setting,
    parse_spec,
    read_settings,
    read_spec,
    with_settings,
)
from rebench.sweep.trial import Plain, Protocol, RecipeSpec, Skeleton, Trial

__all__ = [
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
    "garbage_search_paused",
    "group",
    "group_seconds",
    "guess_cpu",
    "pack",
    "pack_types",
    "parse_setting",
    "parse_spec",
    "read_settings",
    "read_spec",
    "with_settings",
]
