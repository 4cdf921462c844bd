from .listed import listed_trials, write_trials
from .provenance import collect_provenance, job_name, now
from .record import Cost, Curve, Outcome, Provenance, Record
from .results import Finished, FinishedTrials, quarantine
from .shards import ShardReader, ShardWriter, atomic_file, write_atomically

__all__ = [
    "Cost",
    "Curve",
    "Finished",
    "FinishedTrials",
    "Outcome",
    "Provenance",
    "Record",
    "ShardReader",
    "ShardWriter",
    "atomic_file",
    "collect_provenance",
    "job_name",
    "listed_trials",
    "now",
    "quarantine",
    "write_atomically",
    "write_trials",
]
