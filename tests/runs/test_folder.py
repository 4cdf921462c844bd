"""A run's folder: what earlier versions wrote opens."""

import json

from rebench.launch.journal import Submission
from rebench.runs import Run

# As version 0.1.0 wrote them.
FAILURE = {
    "trial_id": "0123456789abcdef",
    "submission": 1,
    "kind": "MissingDataError",
    "message": "no data",
    "worker": "0001-7_0",
    "node": "n1",
    "log": "",
    "time": "2026-01-01T00:00:00",
}
INTENT = {
    "cluster": "slurm",
    "spec_hash": "ab",
    "options": {},
    "data_root": None,
    "retried": ["0123456789abcdef"],
    "chunks": [{"name": "rebench-x-1.0", "jobs": [[["0123456789abcdef"]]]}],
}


def test_failure_without_its_job_opens(tmp_path):
    run = Run.create(tmp_path)
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "0001-7_0.0.jsonl").write_text(json.dumps(FAILURE) + "\n")
    failure = run.failures()["0123456789abcdef"]
    assert (failure.kind, failure.job) == ("MissingDataError", "")


def test_intent_with_the_list_of_retried_trials_opens(tmp_path):
    (tmp_path / "intent.json").write_text(json.dumps(INTENT))
    assert Submission(tmp_path, 1).intent().chunks[0].name == "rebench-x-1.0"
