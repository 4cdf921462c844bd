"""Input of clusters: the script of each job, and the work of the job."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from rebench.errors import ClusterError, TooManyJobsError
from rebench.launch.clusters import cluster
from rebench.launch.decide import Throttle
from rebench.launch.journal import Chunk, Intent, Job, Journal, Sent, Submission
from rebench.runs import SlurmOptions

JOB = (("0123456789abcdef",),)


def _array(mine: Submission, jobs: int = 1, **options) -> list[Job]:
    chunk = Chunk(name=f"rebench-x-{mine.number}.0", jobs=(JOB,) * jobs)
    asked = SlurmOptions(**options)
    return mine.planned(Intent(cluster="", spec_hash="", options=asked, chunks=(chunk,)), 0)


def _send(jobs: list[Job], **how) -> Sent:
    return cluster("slurm").submit(jobs, print, **how)


def _script(jobs: int = 1, *, run="/my runs/x", name="slurm", live=None, **options) -> list[str]:
    array = _array(Submission(Path(run) / "submissions/0003", 3), jobs, **options)
    after = Throttle(array[0].options.array_parallelism, live or {}).before(jobs)
    return cluster(name).submit(array, print, after=after, dry_run=True).script.splitlines()


def _flags(*arguments, **options) -> dict[str, str]:
    """Return the options as sbatch reads them: a backslash in a quoted word is an escape."""
    lines = [line for line in _script(*arguments, **options) if line.startswith("#SBATCH ")]
    words = [shlex.split(line.removeprefix("#SBATCH "))[0] for line in lines]
    return dict(one.removeprefix("--").partition("=")[::2] for one in words)


def test_script_of_a_job_is_this_to_the_letter():
    folder = "/my runs/x/submissions/0003"
    python = shlex.quote(sys.executable)
    step = (
        f"srun --unbuffered --output '{folder}/logs/%j_%t.log' --wait=0 --open-mode=append {python}"
        " -u -m rebench.launch.worker '/my runs/x' 3 0"
    )
    assert _script(partition="a b", setup="module load cuda") == [
        "#!/bin/bash",
        "",
        "# Parameters",
        "#SBATCH --job-name=rebench-x-3.0",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --open-mode=append",
        f"#SBATCH --output='{folder}/logs/%j_0.log'",
        "#SBATCH --partition='a b'",
        "#SBATCH --requeue",
        "#SBATCH --signal=USR2@120",
        "#SBATCH --time=240",
        "",
        "# setup",
        "module load cuda",
        "",
        "# command",
        "export SUBMITIT_EXECUTOR=slurm",
        f"{step} 0",
    ]
    assert " --open-mode=append --cpus-per-task=4 " in _script(cpus_per_task=4)[-1]
    assert _flags(2)["output"] == f"{folder}/logs/%A_%a_0.log"
    several = step.replace("%j", "%A_%a")
    assert _script(2)[-1] == f'{several} "$SLURM_ARRAY_TASK_ID"'


def test_percent_sign_in_a_folder_is_no_placeholder_of_slurm():
    """SLURM writes `%%` as `%`, in paths of logs only."""
    folder = "/runs/5%%job/submissions/0003"
    assert _flags(run="/runs/5%job")["output"] == f"{folder}/logs/%j_0.log"
    *_, step = _script(run="/runs/5%job")
    assert f" --output {folder}/logs/%j_%t.log " in step
    assert step.endswith(" rebench.launch.worker /runs/5%job 3 0 0")


@pytest.mark.parametrize("run", ["/runs/x", "/my runs/it's", "/runs/a$b"])
def test_script_of_a_dry_run_is_the_one_that_is_sent(tmp_path, stand_in, run):
    stand_in("sbatch", "cat > $here/script; echo Submitted batch job 7")
    folder = tmp_path / run.lstrip("/") / "submissions/0003"
    folder.mkdir(parents=True)
    array = _array(Submission(folder, 3), 3, comment="x")
    shown = _send(array, dry_run=True).script
    assert [*folder.iterdir()] == []
    assert _send(array).jobs == ("7_0", "7_1", "7_2")
    assert (tmp_path / "slurm/script").read_text() == shown
    assert (folder / "chunk.0.sbatch").read_text() == shown


def test_submission_leaves_no_pickle_in_the_run_and_no_file_of_submitit(tmp_path, stand_in):
    stand_in("sbatch", "echo $PATH > $here/path; echo Submitted batch job 7")
    mine = Journal(tmp_path / "run").begin()
    before = os.umask(0)
    try:
        _send(_array(mine, 2))
    finally:
        os.umask(before)
    assert mine.logs.stat().st_mode & 0o777 == 0o777, "as the submitter's mask has it"
    names = {path.name for path in mine.folder.iterdir()}
    assert names == {"owner.json", "logs", "chunk.0.sbatch"}
    path = (tmp_path / "slurm/path").read_text().strip()
    assert path == os.environ["PATH"], "jobs inherit it"


def test_link_in_the_place_of_a_script_is_replaced_and_not_followed(tmp_path, stand_in):
    stand_in("sbatch", "echo Submitted batch job 7")
    mine = Journal(tmp_path / "run").begin()
    (victim := tmp_path / "victim").write_text("precious")
    for name in ("chunk.0.sbatch", "closed", "time_outs.7"):
        (mine.folder / name).symlink_to(victim)
    _send(_array(mine))
    mine.close()
    with pytest.raises(OSError, match="symbolic links"):
        mine.time_outs("7", 0)
    assert victim.read_text() == "precious"
    assert not (mine.folder / "chunk.0.sbatch").is_symlink()


def test_words_of_sbatch_may_contain_any_byte(tmp_path, stand_in):
    array = _array(Journal(tmp_path / "run").begin())
    stand_in("sbatch", r"""printf 'gr\374n\n' >&2; printf 'Submitted batch job 7 \374\n'""")
    assert _send(array).jobs == ("7",)
    stand_in("sbatch", r"""printf 'sbatch: error: gr\374n\n' >&2; exit 1""")
    with pytest.raises(ClusterError) as refused:
        _send(array)
    assert str(refused.value) == "sbatch: error: gr\ufffdn"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Batch job submission failed: Invalid job array specification", TooManyJobsError),
        ("Job violates accounting/QOS policy (job submit limit)", TooManyJobsError),
        ("Batch job submission failed: Invalid qos specification", ClusterError),
    ],
)
def test_refusal_is_told_in_slurms_own_words_and_leaves_nothing(
    tmp_path, stand_in, capsys, said, error
):
    stand_in("sbatch", f"echo 'sbatch: error: {said}' >&2; echo more >&2; exit 1")
    mine = Journal(tmp_path / "run").begin()
    with pytest.raises(ClusterError) as refused:
        _send(_array(mine, 2))
    assert (type(refused.value), str(refused.value)) == (error, f"sbatch: error: {said}")
    assert not list(mine.folder.glob("**/*.pkl"))
    assert capsys.readouterr().err == ""


def test_variables_of_sbatch_count_only_for_options_that_the_sweep_lacks(
    tmp_path, stand_in, monkeypatch
):
    stand_in("sbatch", "env | grep ^SBATCH_ | sort > $here/seen; echo Submitted batch job 7")
    for name in ("ACCOUNT", "PARTITION", "TIMELIMIT", "RESERVATION", "MEM_PER_CPU"):
        monkeypatch.setenv(f"SBATCH_{name}", "x")
    own = {"partition": "gpu", "extra": {"reservation": "nas"}}
    _send(_array(Journal(tmp_path / "run").begin(), **own))
    seen = (tmp_path / "slurm/seen").read_text().split()
    assert seen == [
        "SBATCH_ACCOUNT=x",
        "SBATCH_MEM_PER_CPU=x",
    ]
    assert os.environ["SBATCH_PARTITION"] == "x"


def test_jobs_in_a_file_of_before_are_read_and_written_as_they_were():
    text = '{"name":"x.0","jobs":[[["a"],["b","c"]],[["d"]]]}'
    chunk = Chunk.model_validate_json(text)
    assert chunk.jobs[0] == (("a",), ("b", "c"))
    assert json.loads(chunk.model_dump_json()) == json.loads(text)


def test_jobs_of_a_chunk_have_the_numbers_of_an_array_and_a_lone_one_has_its_own():
    assert Sent.of_array("12", 2).jobs == ("12_0", "12_1")
    assert Sent.of_array("12", 1).jobs == ("12",)


def test_job_has_the_trials_of_its_groups():
    chunk = Chunk(name="x.4", jobs=((("a",), ("b", "c")), (("d",),)))
    intent = Intent(cluster="slurm", spec_hash="", chunks=(chunk,))
    first, second = Submission(Path("/runs/x/submissions/0003"), 3).planned(intent, 0)
    assert (first.trials, second.trials) == (("a", "b", "c"), ("d",))
    assert [(job.task, job.chunk, job.number, job.log) for job in (first, second)] == [
        (0, 4, "", ""),
        (1, 4, "", ""),
    ]


def test_dependency_of_the_sweep_holds_as_well():
    options = {"array_parallelism": 1, "extra": {"dependency": "afterok:7"}}
    live = {"12": 40, "34": 20}
    assert _flags(1, live=live, **options)["dependency"] == "afterok:7,afterany:12:34"
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
        ({"extra": {"open-mode": "truncate"}}, {"open-mode": "truncate"}),
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


def test_set_up_may_be_a_lone_line():
    assert SlurmOptions(setup="module load cuda").setup == ["module load cuda"]
    assert "module load cuda" in _script(setup="module load cuda")
    assert SlurmOptions(setup="a\nb").setup == ["a", "b"]


@pytest.mark.parametrize(
    "wrong", [{"gres": "gpu:1", "gpus_per_task": 1}, {"mem_gb": 1, "mem_per_cpu": "1G"}]
)
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValidationError):
        SlurmOptions(**wrong)


def test_job_of_this_machine_runs_its_set_up_first_and_each_process_has_a_log():
    folder = "/my runs/x/submissions/0003"
    head, log, first, last = _script(name="local", setup="test -e ready")
    assert head == "export REBENCH_JOB=$$"
    assert log == f"exec >> '{folder}/logs'/$$_0.log 2>&1"
    assert first == "test -e ready &&"
    assert last.startswith("exec ")
    *_, name, processes, python = shlex.split(_script(name="local", processes_per_job=2)[-1])
    assert (name, processes) == ("rebench-x-3.0", "2")
    bash, _, worker, _ = shlex.split(python)
    assert bash == "/bin/bash"
    opens, works = worker.split("; ")
    assert opens.endswith("logs'/${REBENCH_JOB}_${SUBMITIT_LOCAL_GLOBALID}.log 2>&1")
    python = shlex.quote(sys.executable)
    assert works == f"exec {python} -u -m rebench.launch.worker '/my runs/x' 3 0 0"


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
    # `setup` may contain tabs, as shell code does, and end in a new line, as long texts of TOML do.
    if name == "setup" and (control == "\t" or (control, where) == ("\n", "x{}")):
        assert SlurmOptions(setup=value).setup == [text.rstrip("\n")]
        return
    with pytest.raises(ValidationError, match="must be one line without control characters"):
        SlurmOptions(**{name: value})


NASTY = ["x\\", "x\\'\"", "; touch PWN #", "$(touch PWN)", "a' --wrap='touch PWN", "\\n#SBATCH -x"]


@pytest.mark.parametrize("value", NASTY)
def test_value_is_one_word_of_one_option_whatever_it_holds(value):
    """Unlike a shell, sbatch treats a backslash as an escape also within quotes.

    `_as_sbatch_reads` does the same.
    """
    lines = _script(comment=value, extra={"nice": value, "hold": False, "requeue": False})
    for name in ("comment", "nice"):
        [line] = [line for line in lines if line.startswith(f"#SBATCH --{name}=")]
        assert _as_sbatch_reads(line.removeprefix("#SBATCH ")) == [f"--{name}={value}"]
    assert not [line for line in lines if "hold" in line or line.endswith("requeue")]
    assert sum("PWN" in line for line in lines) in (0, 2)


def _as_sbatch_reads(line: str) -> list[str]:
    """Return the words of a line, like SLURM's ``_get_argument`` (src/sbatch/opt.c)."""
    words, word, quote, escaped = [], "", "", False
    for letter in line:
        if escaped:
            word, escaped = word + letter, False
        elif letter == "\\":
            escaped = True
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        elif not quote and letter == " ":
            words, word = [*words, word], ""
        else:
            word += letter
    return [*words, word]


@pytest.mark.parametrize("name", ["x y", "x=1 --wrap", "#", "x\ty", ""])
def test_name_of_an_option_is_a_name(name):
    with pytest.raises(ValidationError):
        SlurmOptions(extra={name: 1})


@pytest.mark.parametrize(
    "hostile",
    [
        {"left_out": {"n1\n#SBATCH --wrap=id": 1.0}},
        {"trials_per_job": -1},
    ],
)
def test_intent_that_no_submission_writes_is_damaged(hostile):
    with pytest.raises(ValidationError):
        Intent(cluster="slurm", spec_hash="", chunks=(), **hostile)
