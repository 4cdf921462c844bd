from .garbage import garbage_search_paused
from .options import SlurmOptions, TypeOptions
from .plan import (
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
from .sample import Expansion, Skipped, choose_cells, expand
from .spec import (
    SweepSpec,
    example,
    parse_setting,
    parse_spec,
    read_settings,
    read_spec,
    with_settings,
)
from .trial import Plain, Protocol, RecipeSpec, Skeleton, Trial

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
