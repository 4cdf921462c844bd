"""The scripts that jobs begin with."""

import math
import shlex
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from rebench.launch.decide import Turns
from rebench.launch.journal import Chunk, Intent, Journal, Submission
from rebench.launch.send import script, send
from rebench.runs import SlurmOptions
from rebench.runs.options import slurm_minutes


def _script(jobs: int = 1, *, live=None, cluster="slurm", **options) -> list[str]:
    asked = SlurmOptions(**options)
    chunk = Chunk(name="rebench-x-3.0", jobs=((("0123456789abcdef",),),) * jobs)
    intent = Intent(cluster=cluster, spec_hash="", options=asked, chunks=(chunk,))
    mine = Submission(Path("/my runs/x/submissions/0003"), 3)
    turns = {"": Turns(asked.array_parallelism, live or {})}
    return script(mine, intent, 0, turns).splitlines()


def _flags(*arguments, **options) -> dict[str, str]:
    _, command, *_ = _script(*arguments, **options)
    sbatch, parsable, *words = shlex.split(command.removeprefix("# "))
    assert (sbatch, parsable) == ("sbatch", "--parsable")
    return dict(one.removeprefix("--").partition("=")[::2] for one in words)


def test_job_is_a_plain_command_with_its_place_in_the_journal():
    *_, step = _script()
    assert step.startswith(
        "srun --unbuffered --wait=0 --open-mode=append --output '/my runs/x/submissions"
    )
    assert step.endswith(" -u -m rebench.launch.worker '/my runs/x' 3 0")
    flags = _flags()
    assert (flags["job-name"], flags["time"], flags["signal"]) == (
        "rebench-x-3.0",
        "240",
        "USR2@120",
    )
    assert flags["output"] == "/my runs/x/submissions/0003/logs/%j_0.log"
    assert flags["requeue"] == ""
    assert "array" not in flags


def test_script_of_a_job_is_this_to_the_letter():
    python, place = shlex.quote(sys.executable), "/my runs/x/submissions/0003/logs/%j"
    command = f"{python} -u -m rebench.launch.worker '/my runs/x' 3 0"
    options = "--job-name=rebench-x-3.0 --time=240 --signal=USR2@120 --nodes=1 --ntasks-per-node=1"
    options += f" --open-mode=append --requeue '--output={place}_0.log'"
    assert _script(partition="a b") == [
        "#!/bin/bash",
        f"# sbatch --parsable '--partition=a b' {options}",
        f"srun --unbuffered --wait=0 --open-mode=append --output '{place}_%t.log' {command}",
    ]
    several = _flags(2)["output"]
    assert several == "/my runs/x/submissions/0003/logs/%A_%a_0.log"


def test_jobs_of_a_chunk_have_the_numbers_of_an_array_and_a_lone_one_has_its_own():
    jobs = ((("a" * 16,), ("b" * 16, "c" * 16)), (("d" * 16,),))
    both = Chunk(name="x.0", jobs=jobs)
    assert both.sent_as("12").jobs == ("12_0", "12_1")
    assert Chunk(name="x.0", jobs=jobs[:1]).sent_as("12").jobs == ("12",)
    assert both.trials_of(0) == ("a" * 16, "b" * 16, "c" * 16)
    assert both.trials == [letter * 16 for letter in "abcd"]


def test_array_is_throttled_and_waits_for_the_arrays_before_it():
    assert _flags(100)["array"] == "0-99%64"
    assert "dependency" not in _flags(100)
    assert _flags(4, live={"12": 40, "34": 20})["array"] == "0-3%4"
    assert _flags(5, live={"12": 40, "34": 20})["dependency"] == "afterany:12:34"


def test_dependency_of_the_sweep_holds_as_well():
    options = {"array_parallelism": 1, "extra": {"dependency": "afterok:7"}}
    assert _flags(1, live={"12": 1}, **options)["dependency"] == "afterok:7,afterany:12"
    assert _flags(1, **options)["dependency"] == "afterok:7"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gpus_per_task": 2}, {"gpus-per-task": "2"}),
        ({"gpus_per_task": 2, "processes_per_job": 3}, {"gpus-per-node": "2"}),
        ({"gpus_per_task": "a100:2"}, {"gpus-per-task": "a100:2"}),
        ({"gpus_per_task": 0}, {}),
        ({"gres": "gpu:a100:1"}, {"gres": "gpu:a100:1"}),
        ({"gres": "gpu:1g.10gb:1", "gpus_per_task": 0}, {"gres": "gpu:1g.10gb:1"}),
        ({"mem_gb": 1.5}, {"mem": "1536M"}),
        ({"mem_per_cpu": "4G"}, {"mem-per-cpu": "4G"}),
        ({"time": "1-00:00"}, {"time": "1440"}),
        ({"clusters": "hpc2"}, {"clusters": "hpc2"}),
        ({"mail_user": "me@x.org", "mail_type": "END,FAIL"}, {"mail-user": "me@x.org"}),
        ({"extra": {"nice": 100, "exclusive": True, "hold": False}}, {"nice": "100"}),
    ],
)
def test_options_are_those_of_sbatch(options, expected):
    flags = _flags(**options)
    assert {key: flags.get(key) for key in expected} == expected
    named = {"gpus-per-task", "gpus-per-node", "gres", "mem", "mem-per-cpu"} - expected.keys()
    assert not named & flags.keys()
    assert "hold" not in flags


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 91), ("8:00:00", 480), ("1-00", 1440), ("2-12:30", 3630), (30, 30)],
)
def test_time_is_spelt_as_sbatch_takes_it(text, minutes):
    assert SlurmOptions(time=text).time_min == SlurmOptions(time_min=text).time_min == minutes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:30", 0.5),
        ("1:00", 1.0),
        ("2:00:00", 120.0),
        ("1-00:00:00", 1440.0),
        ("infinite", math.inf),
        ("INVALID", math.inf),
    ],
)
def test_times_that_slurm_prints_are_minutes(text, expected):
    assert slurm_minutes(text) == expected


def test_set_up_may_be_a_lone_line():
    assert SlurmOptions(setup="module load cuda").setup == ["module load cuda"]
    assert "module load cuda" in _script(setup="module load cuda")


@pytest.mark.parametrize(
    "wrong",
    [
        {"gres": "gpu:1", "gpus_per_task": 1},
        {"mem_gb": 1, "mem_per_cpu": "1G"},
        {"mem_per_cpu": "a lot"},
        {"time": "tomorrow"},
        {"gpus_per_task": "a100"},
    ],
)
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValidationError):
        SlurmOptions(**wrong)


def test_job_of_this_machine_runs_its_set_up_first_and_each_process_has_a_log():
    head, log, first, last = _script(cluster="local", setup="test -e ready")
    assert head == "export REBENCH_JOB=$$ REBENCH_PROCESSES=1"
    assert log == "exec >> '/my runs/x/submissions/0003/logs'/$$_0.log 2>&1"
    assert first == "test -e ready &&"
    assert last.startswith("exec ")
    two = "\n".join(_script(cluster="local", processes_per_job=2))
    assert "REBENCH_RANK=1 " in two
    assert "/$$_1.log 2>&1 &" in two


@pytest.mark.parametrize(
    "place",
    [
        *({name: None} for name in ("partition", "comment", "mail_user", "container_image")),
        {"setup": []},
        {"container_binds": []},
        {"extra": {"nice": None}},
    ],
)
@pytest.mark.parametrize("control", ["\n", "\r", "\t", "\0", "\x1b", "\x85", "\u2028", "\u202e"])
@pytest.mark.parametrize("where", ["{}x", "x{}y", "x{}"])
def test_control_characters_are_refused_in_every_value(place, control, where):
    ((name, holder),) = place.items()
    text = where.format(control)
    value = [text] if holder == [] else {"nice": text} if holder else text
    # Lines of shell are indented, and TOML's long texts end in a new line.
    if name == "setup" and (control == "\t" or (control, where) == ("\n", "x{}")):
        assert SlurmOptions(setup=value).setup == [text.rstrip("\n")]
        return
    with pytest.raises(ValidationError, match="must be one line without control characters"):
        SlurmOptions(**{name: value})


def test_values_are_words_of_the_command_and_no_part_of_the_script(monkeypatch, tmp_path):
    """What `sbatch` is called with; a stand-in for it, as no SLURM is needed for that."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\ncat >{tmp_path}/script\necho 7\n'
    )
    sbatch.chmod(0o755)
    comment, user = "x\\'\"", "; touch PWN #"
    options = SlurmOptions(comment=comment, mail_user=user, setup="true", extra={"hold": True})
    chunk = Chunk(name="rebench-x-1.0", jobs=((("0123456789abcdef",),),))
    intent = Intent(cluster="slurm", spec_hash="", options=options, chunks=(chunk,))
    mine = Journal(tmp_path).begin()
    delivered = send(mine, intent, {"": Turns(1, {})}, live=False)
    assert delivered.jobs == ("7",)
    words = (tmp_path / "words").read_text().splitlines()
    assert {f"--comment={comment}", f"--mail-user={user}", "--hold"} <= set(words)
    text = (tmp_path / "script").read_text()
    first, second, step, end = text.split("\n")
    assert (first, second, end) == ("#!/bin/bash", "true", "")
    assert step.startswith("srun ")
    assert "PWN" not in step
    told = (mine.folder / "chunk.0.sbatch").read_text().splitlines()
    assert shlex.split(told.pop(1).removeprefix("# ")) == ["sbatch", *words]
    assert told == [first, second, step]


@pytest.mark.parametrize(
    "hostile",
    [
        {"left_out": {"n1\n#SBATCH --wrap=id": 1.0}},
        {"memory_factor": 1e300},
        {"trials_per_job": -1},
    ],
)
def test_intent_that_no_submission_writes_is_damaged(hostile):
    with pytest.raises(ValidationError):
        Intent(cluster="slurm", spec_hash="", chunks=(), **hostile)
