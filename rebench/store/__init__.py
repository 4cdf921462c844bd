"""Records on disk: the files are the truth; there is no server and no lock."""

from rebench.store.index import RecordWriter
from rebench.store.provenance import collect_provenance, job_name, now
from rebench.store.record import Cost, Curve, Outcome, Provenance, Record
from rebench.store.results import Finished, FinishedTrials, Loaded, load_records, quarantine
from rebench.store.shards import ShardReader, ShardWriter, atomic_file, write_atomically

__all__ = [
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
]
