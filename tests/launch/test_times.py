"""How long trials take: by the run's own records, or by a guess that knows a CPU from a GPU."""

import json

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.errors import InputError
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import times_for
from rebench.runs import GUESS, parse_spec

SPEC = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1]
epochs = 2
[cells]
indices = [11]
[slurm]
device = "{device}"
"""


def _times(tmp_path, device="cpu", **where):
    spec = parse_spec(SPEC.format(device=device))
    return times_for(spec, run=tmp_path, **where)


def test_nothing_known_is_a_guess_of_the_device(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _times(tmp_path, "auto") is GUESS
    assert "a CPU with one core" in _times(tmp_path).source
    assert _times(tmp_path).per_gflop_s == 3 / 30
    assert _times(tmp_path, 'cpu"\ncpus_per_task = 4\ncomment = "').per_gflop_s == 3 / 120
    for device in ("cpu", "auto"):
        here = _times(tmp_path, device, here=True)
        assert "this machine multiplies" in here.source
        # A small network's layer takes no less than tens of microseconds on any CPU.
        assert 1e-5 < here.per_layer_s < 1.0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert _times(tmp_path, "auto", here=True) is GUESS
    with pytest.raises(InputError, match="none contains no finished trial"):
        _times(tmp_path, past=tmp_path / "none")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run of six trials of which two are done."""
    sweep = Sweep(tmp_path_factory.mktemp("begun"), cells=1, epochs=1)
    one = ["--set", 'recipes=["nb201"]']
    assert main(sweep.command("submit", "--cluster", "debug", *one)[3:]) == 0
    return sweep


def test_own_records_tell_where_there_are_some(begun, capsys):
    spec = begun.spec.read_text()
    shards = [path.read_text() for path in begun.run.glob("results/*")]
    done = [json.loads(line) for shard in shards for line in shard.splitlines()]
    parsed = parse_spec(spec)
    trials = expand_spec(parsed).trials
    own = times_for(parsed, run=begun.run)
    assert own.source == "2 records of this run"
    known = {record["trial_id"]: record["cost"]["seconds"] for record in done}
    for trial in trials:
        if trial.trial_id in known:
            assert own.seconds(trial) == pytest.approx(known[trial.trial_id], rel=0.9)


def test_dry_run_writes_nothing_and_is_what_would_be_sent(begun, capsys):
    before = sorted(begun.run.rglob("*"))
    dry = ["--dry-run", "--accept-change", "--json"]
    assert main(begun.command("submit", *dry, "--cluster", "local")[3:]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["trials"], row["times_from"]) == (4, "2 records of this run")
    assert row["jobs"] == row["arrays"]
    assert "REBENCH_JOB" in row["script"]
    assert sorted(begun.run.rglob("*")) == before
    # And that is what is sent.
    sent = begun.submit("--accept-change", "--cluster", "local")
    assert (sent["sent"], sent["jobs"]) == (row["trials"], row["jobs"])
    number = begun.run / "submissions" / "0002"
    assert str(number) in row["script"]
    assert len(list(number.glob("sent.*.json"))) == row["arrays"]
    begun.wait_until_over()
