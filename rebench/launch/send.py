"""Jobs on their way: to SLURM with `sbatch`, to this machine in the background, or done right here.

A job is a plain command that names the run's folder and its place in the journal; what it trains
is read from there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rebench.errors import ClusterError, RebenchError
from rebench.launch import slurm
from rebench.launch.decide import Turns, cut, named
from rebench.launch.journal import Chunk, Intent, Sent, Submission
from rebench.launch.place import gpus_of_a_job, visible_gpus
from rebench.launch.worker import work
from rebench.printable import printable
from rebench.runs import SlurmOptions
from rebench.runs.claims import mark_of

__all__ = ["Delivered", "script", "send"]

# Options of the sweep that `sbatch` knows by the same name.
_SBATCH: Final = (
    *("partition", "account", "qos", "constraint", "exclude", "nodelist", "comment", "clusters"),
    *("cpus_per_task", "gres", "mem_per_cpu", "mail_user", "mail_type"),
)
# How `sbatch` refuses too many jobs, or too large an array; or one job that asks for too much.
_LIMIT: Final = re.compile(
    r"violates accounting/QOS policy|SubmitJob|Invalid job array|temporarily (unable|unavailable)"
)
# What has ended is reaped with this process; what has not goes on without it.
_started: Final[list[subprocess.Popen[bytes]]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What the scheduler took."""

    jobs: tuple[str, ...] = ()
    trials: frozenset[str] = frozenset()
    refusal: str = ""
    """Why it took no more."""


def send(mine: Submission, intent: Intent, turns: Mapping[str, Turns], *, live: bool) -> Delivered:
    """Send the chunks of a submission, as many as the scheduler takes.

    Raises:
        RebenchError: a chunk was refused for what it is, or the first one although nothing lives.
    """
    jobs: list[str] = []
    trials: set[str] = set()
    number, refusal = 0, ""
    while number < len(intent.chunks):
        chunk = intent.chunks[number]
        mine.touch()
        try:
            sent = _WAYS[intent.cluster](mine, intent, number, turns)
        except RebenchError as error:
            fewer = _fewer(intent, number, error)
            if fewer is None or not (fewer.chunks or live):
                left = sum(len(later.trials) for later in intent.chunks[number:])
                raise type(error)(
                    f"{error} | sent before that: {len(jobs)} jobs; not sent: {left} trials, which"
                    " submitting again will send"
                ) from error
            mine.write_intent(fewer)
            intent, refusal = fewer, f"SLURM takes no more jobs now ({error})"
            continue
        mine.write_sent(number, sent)
        jobs += sent.jobs
        trials.update(chunk.trials)
        number += 1
    return Delivered(jobs=tuple(jobs), trials=frozenset(trials), refusal=refusal)


def script(submission: Submission, intent: Intent, number: int, turns: Mapping[str, Turns]) -> str:
    """The command and the script of a chunk, for people; or what runs in the background here."""
    text = _script(submission, intent, number)
    if intent.cluster != "slurm":
        return text
    first, _, rest = text.partition("\n")
    command = shlex.join(_sbatch(submission, intent, number, turns))
    return f"{first}\n# {printable(command, keep='')}\n{rest}"


def _sbatch(
    submission: Submission, intent: Intent, number: int, turns: Mapping[str, Turns]
) -> list[str]:
    """The command that sends a chunk, and reads its script.

    Values are words of it: in the script's text a line could end, and another begin.
    """
    chunk = intent.chunks[number]
    flags = _flags(intent.options_of(chunk), chunk, turns[chunk.type_name])
    flags["output"] = f"{_log(submission, chunk)}_0.log"
    words = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in flags.items()
        if value is not None and value is not False
    ]
    return ["sbatch", "--parsable", *words]


def _log(submission: Submission, chunk: Chunk) -> str:
    """How the paths of the logs of a chunk's jobs begin, in SLURM's patterns."""
    return f"{submission.logs}/{'%A_%a' if len(chunk.jobs) > 1 else '%j'}"


def _script(submission: Submission, intent: Intent, number: int) -> str:
    """The script of a chunk: what `sbatch` reads, or what runs in the background here."""
    chunk = intent.chunks[number]
    options = intent.options_of(chunk)
    python = shlex.quote(sys.executable)
    if options.container_image:
        words = ["apptainer", "exec", *(["--nv"] if options.gpus or options.gres else [])]
        words += [word for bind in options.container_binds for word in ("--bind", bind)]
        python = shlex.join([*words, options.container_image, "python"])
    place = [str(submission.run), str(submission.number), str(number)]
    command = f"{python} -u -m rebench.launch.worker {shlex.join(place)}"
    if intent.cluster != "slurm":
        return _local_script(command, shlex.quote(str(submission.logs)), options)
    output = shlex.quote(f"{_log(submission, chunk)}_%t.log")
    # Its processes may end long after each other.
    step = f"srun --unbuffered --wait=0 --open-mode=append --output {output} {command}"
    return "\n".join(["#!/bin/bash", *options.setup, step, ""])


def _flags(options: SlurmOptions, chunk: Chunk, turns: Turns) -> dict[str, Any]:
    """The options of `sbatch`, by name."""
    flags: dict[str, Any] = {name: getattr(options, name) for name in _SBATCH}
    flags |= {
        "job_name": chunk.name,
        "time": options.time_min,
        "signal": f"USR2@{options.signal_delay_s}",
        "nodes": 1,
        "ntasks_per_node": options.processes_per_job,
        "open_mode": "append",
        "requeue": True,
        "mem": None if options.mem_gb is None else f"{round(options.mem_gb * 1024)}M",
        # GPUs of a task are its own; those of the node are shared by all processes of the job.
        "gpus_per_node" if options.processes_per_job > 1 else "gpus_per_task": (
            options.gpus_per_task if options.gpus else None
        ),
        **options.extra,
    }
    count = len(chunk.jobs)
    if count > 1:
        flags["array"] = f"0-{count - 1}%{min(count, turns.at_once)}"
    if before := turns.before(count):
        own = [str(flags["dependency"])] if "dependency" in flags else []
        flags["dependency"] = ",".join([*own, ":".join(["afterany", *before])])
    return flags


def _local_script(command: str, logs: str, options: SlurmOptions) -> str:
    """One job on this machine: its number is the process's, and each rank has a log of its own."""
    count = options.processes_per_job
    ranks = [
        f"REBENCH_RANK={rank} {command} >> {logs}/$$_{rank}.log 2>&1 &" for rank in range(count)
    ]
    run = [f"exec {command}"] if count == 1 else ["{", *ranks, "wait", "}"]
    steps = " &&\n".join([*options.setup, "\n".join(run)])
    head = f"export REBENCH_JOB=$$ REBENCH_PROCESSES={count}"
    return f"{head}\nexec >> {logs}/$$_0.log 2>&1\n{steps}\n"


def _to_slurm(mine: Submission, intent: Intent, number: int, turns: Mapping[str, Turns]) -> Sent:
    """Call `sbatch`; what SLURM answers to a refusal is the error's text."""
    chunk = intent.chunks[number]
    mine.logs.mkdir(exist_ok=True)
    told = script(mine, intent, number, turns)
    command = _sbatch(mine, intent, number, turns)
    said = slurm.ask(*command, given=_script(mine, intent, number), limit_s=300)
    main = said.strip().partition(";")[0]
    (mine.folder / f"chunk.{number}.sbatch").write_text(told)  # for people
    turns[chunk.type_name].sent(main, len(chunk.jobs))
    return chunk.sent_as(main)


def _to_this_machine(mine: Submission, intent: Intent, number: int, _: Mapping[str, Turns]) -> Sent:
    """Start one process in a session of its own: no terminal that closes, no Ctrl-C reaches it."""
    count, there = gpus_of_a_job(intent.options), visible_gpus()
    own = [there[(number * count + at) % len(there)] for at in range(count)] if there else []
    mine.logs.mkdir(exist_ok=True)
    process = subprocess.Popen(  # noqa: S603 - the sweep's own set-up commands
        ["/bin/bash", "-c", _script(mine, intent, number)],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _started.append(process)
    return Sent(jobs=(str(process.pid),), process=mark_of(process.pid))


def _right_here(mine: Submission, intent: Intent, number: int, _: Mapping[str, Turns]) -> Sent:
    """Train in this process, one job after the other; for looking at what goes wrong."""
    for task in range(len(intent.chunks[number].jobs)):
        work(mine.run, mine.number, number, task)
    # They have ended, though this process has not.
    return Sent(jobs=(str(os.getpid()),), process=mark_of(os.getpid(), ended=True))


_WAYS: Final[Mapping[str, Callable[..., Sent]]] = {
    "slurm": _to_slurm,
    "local": _to_this_machine,
    "debug": _right_here,
}


def _fewer(intent: Intent, number: int, error: RebenchError) -> Intent | None:
    """The intent with smaller chunks from `number` on, or without where one job is too many.

    Chunks of other types of device stay. None if it was not the number of jobs that was refused.
    """
    if not (isinstance(error, ClusterError) and _LIMIT.search(str(error))):
        return None
    before, chunk, later = intent.chunks[:number], intent.chunks[number], intent.chunks[number:]
    jobs = [job for one in later if one.type_name == chunk.type_name for job in one.jobs]
    others = [one for one in later if one.type_name != chunk.type_name]
    size = len(chunk.jobs) // 2
    smaller = cut(chunk.type_name, jobs, size) if size else []
    chunks = named(f"{chunk.name.rpartition('.')[0]}.", [*before, *smaller, *others])
    return intent.model_copy(update={"chunks": chunks})
