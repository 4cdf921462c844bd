"""Records on disk: the files are the truth; there is no server and no lock."""

from rebench.store.listed import listed_trials, write_trials
from rebench.store.provenance import collect_provenance, job_name, now
from rebench.store.record import Cost, Curve, Outcome, Provenance, Record
from rebench.store.results import Finished, FinishedTrials, quarantine
from rebench.store.shards import ShardReader, ShardWriter, atomic_file, write_atomically

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
