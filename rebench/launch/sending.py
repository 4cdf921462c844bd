"""Jobs to the scheduler, a chunk at a time: what it takes is sent, what it took is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from rebench.errors import ClusterError, RebenchError
from rebench.launch.clusters import Cluster, SlurmCluster
from rebench.launch.files import Tell
from rebench.launch.journal import Chunk, Intent, Journal, Sent, Submission
from rebench.launch.run import Run, trial_ids
from rebench.launch.slurm import is_limit, queued_jobs
from rebench.launch.worker import Worker
from rebench.sweep import Job

__all__ = ["adopt_jobs", "chunks_of", "send_chunks"]

# The trials of a job, as the journal names them.
Groups: TypeAlias = tuple[tuple[str, ...], ...]


def chunks_of(
    prefix: str, packed: Mapping[str, Sequence[Job]], sizes: Mapping[str, tuple[int, int]]
) -> tuple[Chunk, ...]:
    """Return the chunks that the jobs of every type of device are sent in.

    `sizes` says of each type how many jobs its first chunk and its others may have.
    """
    cut: list[Chunk] = []
    for type_name, jobs in packed.items():
        ids = [tuple(tuple(one.trial_id for one in group) for group in job.groups) for job in jobs]
        first, size = sizes[type_name]
        cut += [*_cut(type_name, ids[:first], first), *_cut(type_name, ids[first:], size)]
    return _named(prefix, cut)


def _cut(type_name: str, jobs: Sequence[Groups], size: int) -> list[Chunk]:
    return [
        Chunk(name="", type_name=type_name, jobs=tuple(jobs[start : start + size]))
        for start in range(0, len(jobs), size)
    ]


def _named(prefix: str, chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Name chunks by their places."""
    return tuple(
        chunk.model_copy(update={"name": f"{prefix}.{number}"})
        for number, chunk in enumerate(chunks)
    )


def send_chunks(
    run: Run, mine: Submission, intent: Intent, clusters: Mapping[str, Cluster], *, live: int
) -> tuple[tuple[str, ...], set[str], str]:
    """Send chunks, each to the cluster of its type, as many as the scheduler takes.

    Return jobs, trials and why not the rest.
    """
    jobs: list[str] = []
    trials: set[str] = set()
    number, refusal = 0, ""
    while number < len(intent.chunks):
        chunk = intent.chunks[number]
        mine.touch()
        try:
            sent = clusters[chunk.type_name].send(
                _submitit(mine), chunk, _workers(run, mine, number, chunk)
            )
        except RebenchError as error:
            fewer = _fewer(intent, number, error)
            if fewer is None or not (fewer.chunks or live):
                left = sum(len(_ids(later)) for later in intent.chunks[number:])
                raise type(error)(
                    f"{error} | sent before that: {len(jobs)} jobs; not sent: {left} trials, which"
                    " submitting again will send"
                ) from error
            mine.write_intent(fewer)
            intent, refusal = fewer, f"SLURM takes no more jobs now ({error})"
            continue
        mine.write_sent(number, sent)
        jobs += sent.jobs
        trials.update(_ids(chunk))
        number += 1
    return tuple(jobs), trials, refusal


def _fewer(intent: Intent, number: int, error: RebenchError) -> Intent | None:
    """Return the intent with smaller chunks from `number` on, or without where one job is too many.

    Chunks of other types of device stay. None if it was not the number of jobs that was refused.
    """
    if not (isinstance(error, ClusterError) and is_limit(error)):
        return None
    before, chunk, later = intent.chunks[:number], intent.chunks[number], intent.chunks[number:]
    jobs = [job for one in later if one.type_name == chunk.type_name for job in one.jobs]
    others = [one for one in later if one.type_name != chunk.type_name]
    size = len(chunk.jobs) // 2
    smaller = _cut(chunk.type_name, jobs, size) if size else []
    chunks = _named(chunk.name.rpartition(".")[0], [*before, *smaller, *others])
    return intent.model_copy(update={"chunks": chunks})


def _ids(chunk: Chunk) -> list[str]:
    return [one for job in chunk.jobs for one in trial_ids(job)]


def adopt_jobs(run: Run, journal: Journal, tell: Tell) -> int:
    """Find the jobs of submitters that died between `sbatch` and writing down its answer."""
    adopted = 0
    for one in journal.submissions():
        intent = one.intent()
        # The jobs of another user refuse work that this one would write for them.
        if intent is None or intent.cluster != "slurm" or one.is_of_another:
            continue
        for number, chunk in enumerate(intent.chunks):
            if run.owns(chunk.name) and one.sent(number) is None:
                adopted += _adopt_chunk(run, one, number, chunk, intent)
    if adopted:
        tell(f"took over {adopted} jobs whose submitter had died before it could hand them over")
    return adopted


def _adopt_chunk(run: Run, one: Submission, number: int, chunk: Chunk, intent: Intent) -> int:
    found = [job.job for job in queued_jobs(run.job_prefix) if job.name == chunk.name]
    if not found:
        return 0
    main = found[0].partition("_")[0]
    count = len(chunk.jobs)
    jobs = {task: f"{main}_{task}" if count > 1 else main for task in range(count)}
    cluster = SlurmCluster(intent.options.of(chunk.type_name))
    cluster.adopt(_submitit(one), jobs, _workers(run, one, number, chunk))
    one.write_sent(number, Sent(jobs=tuple(jobs.values())))
    return count


def _workers(run: Run, one: Submission, number: int, chunk: Chunk) -> list[Worker]:
    return [Worker(str(run.folder), one.number, number, task) for task in range(len(chunk.jobs))]


def _submitit(one: Submission) -> Path:
    return one.folder / "submitit"
