from .folder import Failure, Run, listed_trials, write_trials
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
from .provenance import collect_provenance, job_name, now
from .record import Cost, Curve, Outcome, Provenance, Record
from .results import Finished, FinishedTrials, quarantine
from .sample import Expansion, Skipped, choose_cells, expand
from .shards import ShardReader, ShardWriter, atomic_file, write_atomically
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
    "Cost",
    "Curve",
    "Expansion",
    "Failure",
    "Finished",
    "FinishedTrials",
    "Job",
    "Outcome",
    "Plain",
    "Protocol",
    "Provenance",
    "RecipeSpec",
    "Record",
    "Run",
    "ShardReader",
    "ShardWriter",
    "Skeleton",
    "Skipped",
    "SlurmOptions",
    "SweepSpec",
    "TimeModel",
    "Trial",
    "TypeOptions",
    "atomic_file",
    "choose_cells",
    "collect_provenance",
    "example",
    "expand",
    "fit_times",
    "group",
    "group_seconds",
    "guess_cpu",
    "job_name",
    "listed_trials",
    "now",
    "pack",
    "pack_types",
    "parse_setting",
    "parse_spec",
    "quarantine",
    "read_settings",
    "read_spec",
    "with_settings",
    "write_atomically",
    "write_trials",
]
