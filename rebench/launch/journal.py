"""The journal of submissions: the submitter, the planned jobs, and the answer of the cluster.

`mkdir` reserves the number of a submission; it is atomic on network file systems too. A submission
waits until all earlier submissions are closed, so only one process at a time selects the pending
trials. The intent is written before the first `sbatch`, with the names of the jobs in the queue. If
a submitter dies, the next submitter finds its jobs by these names.
"""

from __future__ import annotations

import contextlib
import getpass
import itertools
import math
import os
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field

from rebench.errors import ClusterError, StoreError
from rebench.launch.liveness import submitter_lives
from rebench.runs import Plain, SlurmOptions, TrainOptions
from rebench.runs.claims import ProcessMark, this_process
from rebench.runs.files import read_file, without_following
from rebench.runs.folder import Kept, Tell, read_kept, unheard, write_kept
from rebench.runs.shards import write_atomically

__all__ = [
    "UNSENT",
    "Chunk",
    "Groups",
    "Intent",
    "Job",
    "JobState",
    "Journal",
    "Kind",
    "Owner",
    "Sent",
    "Submission",
]

# Names of the folders of submissions, such as ``0001``.
_NUMBER: Final = re.compile("[0-9]{4}|[1-9][0-9]{4,}")


class Owner(Kept):
    """The user and the process that submit."""

    user: str
    process: ProcessMark


class Sent(Kept):
    """The answer of a cluster to an array: the numbers of its jobs, in order."""

    jobs: tuple[Annotated[str, Field(pattern=r"^\d+(_\d+)?$")], ...]
    process: ProcessMark | None = None
    # The script of the jobs, for people to read; it is not part of the file.
    script: Annotated[str, Field(exclude=True)] = ""

    @classmethod
    def of_array(cls, number: str, jobs: int, script: str = "") -> Sent:
        """Return the jobs of an array of SLURM; a single job has the number itself."""
        numbers = [number]
        if jobs > 1:
            numbers = [f"{number}_{task}" for task in range(jobs)]
        return cls(jobs=tuple(numbers), script=script)


# The work of a job: trials by their ids, in groups that are trained as one network.
Groups: TypeAlias = tuple[tuple[str, ...], ...]


class Chunk(Plain):
    """Jobs that are submitted together, as one array of the scheduler."""

    name: str
    """The name of its jobs in the queue. It ends with the number of the chunk."""
    jobs: tuple[Groups, ...]


class Intent(Kept):
    """The plan of a submission."""

    cluster: str
    spec_hash: str
    # The folder in which the jobs look for the run; None in a plan that is not written yet.
    run: Path | None = None
    options: SlurmOptions = SlurmOptions()
    train: TrainOptions = TrainOptions()
    # The run with the networks from which the trials start.
    start_from: Path | None = None
    data_root: str | None = None
    trials_per_job: Annotated[int, Field(ge=1)] | None = None
    # Node that gets no job -> Unix time (seconds) since when it gets no job.
    left_out: dict[Annotated[str, Field(pattern=r"^[\w.-]+$")], float] = Field(default_factory=dict)
    # Package that a job needs -> digest of its files.
    code: dict[str, str] = Field(default_factory=dict)
    # The commit of the submitter's code, and whether that code was edited; None if unknown.
    commit: str | None = None
    dirty: bool | None = None
    # Node failures in submissions before this number are ignored.
    nodes_judged_from: int = 0
    chunks: tuple[Chunk, ...]


Kind: TypeAlias = Literal[
    "unsent", "waiting", "running", "ending", "unknown", "ended", "failed", "memory", "stopped"
]


class JobState(NamedTuple):
    """State of a job: its kind, and the word and the reason of its cluster for the user.

    A job of an unknown kind may run. A `stopped` job was ended by a user or by its cluster.
    """

    kind: Kind
    name: str = ""
    reason: str = ""

    @property
    def live(self) -> bool:
        """Whether the job runs or will run; true if its state is unknown."""
        return self.kind in ("waiting", "running", "ending", "unknown")


UNSENT: Final = JobState("unsent")
"""State of a job that was planned and never submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job of a submission: its work, its place on its cluster, and its state."""

    submission: Submission
    cluster: str
    options: SlurmOptions = field(default_factory=SlurmOptions)
    name: str = ""
    """The name in the queue, which the jobs of an array share. It ends with the chunk's number."""
    task: int = 0
    """Position of the job in its array."""
    groups: Groups = ()
    is_sent: bool = False
    """Whether the journal contains the number of the job."""
    number: str = ""
    """Number of the job on its cluster; empty if it was never submitted."""
    process: ProcessMark | None = None
    """The process of a job without a scheduler, on this machine or another."""
    owner: str = ""
    """The user who submitted the job; empty if unknown."""
    astray: bool = False
    """Whether the run is no longer in the folder in which the job looks for it."""
    state: JobState = UNSENT
    node: str = ""
    used_min: float = math.inf
    """Minutes that the job has run; infinite if unknown."""
    ended: str = ""
    """Time of the end, as text that sorts by time."""

    @property
    def live(self) -> bool:
        """Whether the job runs or will run; true if its state is unknown."""
        return self.state.live

    @property
    def trials(self) -> tuple[str, ...]:
        """The trials of the job, in order."""
        return tuple(itertools.chain.from_iterable(self.groups))

    @property
    def array(self) -> str:
        """Number of the job's array, or of the job if it has none."""
        return self.number.partition("_")[0]

    @property
    def chunk(self) -> int:
        """Position of the job's chunk in its submission."""
        return int(self.name.rpartition(".")[2])

    @property
    def log(self) -> str:
        """Path of the log of the job's first process; empty if the job was never submitted."""
        return f"{self.submission.logs}/{self.number}_0.log" if self.number else ""


@dataclass(frozen=True, slots=True)
class Submission:
    """The folder of one submission."""

    folder: Path
    number: int

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self.folder.parents[1]

    @property
    def owner_file(self) -> Path:
        """The file that names the submitter. It is touched before every array."""
        return self.folder / "owner.json"

    @property
    def logs(self) -> Path:
        """The folder of the jobs' logs; every user who can read the run can read them."""
        return self.folder / "logs"

    def sent_file(self, chunk: int) -> Path:
        """Return the file that names the jobs of a chunk."""
        return self.folder / f"sent.{chunk}.json"

    def time_outs(self, job: str, attempt: int) -> int:
        """Count the attempts of a job that reached its time limit, including this attempt."""
        path = self.folder / f"time_outs.{job}"
        with open(path, "a", opener=without_following) as file:
            file.write(f"{attempt}\n")
        # Each process of a job may add its line.
        return len(set(read_file(path).split()))

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will be submitted under this number."""
        return (self.folder / "closed").exists()

    def close(self) -> None:
        """Declare that nothing more will be submitted under this number."""
        write_atomically(self.folder / "closed", b"")

    def touch(self) -> None:
        """Update the time of the owner's file; raise if another submitter closed the submission."""
        if self.is_closed:
            raise ClusterError(
                f"another submitter closed submission {self.number}, because this process seemed to"
                " have ended; submit again to send the other trials"
            )
        os.utime(self.owner_file, follow_symlinks=False)

    def write_intent(self, intent: Intent) -> None:
        """Write the plan, before anything is submitted."""
        write_kept(self.folder / "intent.json", intent)

    def intent(self, tell: Tell = unheard) -> Intent | None:
        """Return the plan; None if its file is missing or damaged."""
        unknown = (
            f"which jobs submission {self.number} sent is not known; if the queue shows some named"
            f" rebench-*-{self.number}.*, let them end or cancel them before you submit again"
        )
        return read_kept(Intent, self.folder / "intent.json", tell, unknown)

    def write_sent(self, chunk: int, sent: Sent) -> None:
        """Write the jobs of a chunk."""
        write_kept(self.sent_file(chunk), sent)

    def sent(self, chunk: int, tell: Tell = unheard, *, tasks: int = 1) -> Sent | None:
        """Return the jobs of a chunk; None if its file is missing or damaged."""
        unknown = "its jobs are looked for in the queue by their names when you submit again"
        sent = read_kept(Sent, self.sent_file(chunk), tell, unknown)
        if sent is not None and len(sent.jobs) < tasks:
            tell(f"{self.sent_file(chunk)} is damaged: {unknown}")
            return None
        return sent

    def planned(self, intent: Intent, chunk: int) -> list[Job]:
        """Return the jobs of a chunk, which are not submitted yet."""
        jobs = []
        for task, groups in enumerate(intent.chunks[chunk].jobs):
            job = Job(
                submission=self,
                cluster=intent.cluster,
                options=intent.options,
                name=intent.chunks[chunk].name,
                task=task,
                groups=groups,
            )
            jobs.append(job)
        return jobs

    def jobs(self, tell: Tell = unheard) -> list[Job]:
        """Return the jobs of this submission, without their states."""
        jobs: list[Job] = []
        intent = self.intent(tell)
        if intent is None:
            return jobs
        owner = self.owner()
        user = owner.user if owner else ""
        astray = intent.run is not None and not _is_same(intent.run, self.run)
        for chunk in range(len(intent.chunks)):
            planned = self.planned(intent, chunk)
            sent = self.sent(chunk, tell, tasks=len(planned))
            for job in planned:
                known = replace(job, owner=user, astray=astray)
                if sent is not None:
                    number = sent.jobs[job.task]
                    known = replace(known, is_sent=True, number=number, process=sent.process)
                jobs.append(known)
        return jobs

    def owner(self) -> Owner | None:
        """Return the owner; None if its file is not written yet."""
        return read_kept(Owner, self.owner_file)

    def describe_owner(self) -> str:
        """Return the owner in words."""
        owner = self.owner()
        if owner is None:
            return f"submission {self.number}"
        return f"{owner.user}@{owner.process.host} (process {owner.process.pid})"


def _is_same(path: Path, folder: Path) -> bool:
    try:
        return path.samefile(folder)
    except (OSError, ValueError):  # gone, or a path with NUL
        return False


class Journal:
    """The submissions of a run, in order."""

    def __init__(self, run: Path) -> None:
        self._folder = run / "submissions"

    def submission(self, number: int) -> Submission:
        """Return the submission with this number."""
        return Submission(self._folder / f"{number:04d}", number)

    def submissions(self, tell: Tell = unheard) -> list[Submission]:
        """Return every submission in order; `tell` gets a line about each other entry."""
        found = []
        for path in sorted(self._folder.glob("[!.]*")):
            if not path.is_dir():
                tell(f"{path} is not a folder, so not a submission: ignored; remove it")
            elif not _NUMBER.fullmatch(path.name):
                tell(f"{path} is not a submission (0001, 0002, ...): ignored; remove it")
            else:
                found.append(self.submission(int(path.name)))
        return sorted(found, key=lambda one: one.number)

    def last(self) -> Intent | None:
        """Return the last plan; None without a plan."""
        for one in reversed(self.submissions()):
            intent = one.intent()
            if intent is not None:
                return intent
        return None

    def next(self) -> Submission:
        """Return the submission with the next free number."""
        known = self.submissions()
        return self.submission(known[-1].number + 1 if known else 1)

    def begin(self, on_wait: Tell = unheard, *, patience_s: float = 900.0) -> Submission:
        """Take the next number; return it when every earlier submission is closed."""
        mine = self._take_number()
        try:
            write_kept(mine.owner_file, Owner(user=getpass.getuser(), process=this_process()))
            self._wait_for_earlier(mine, on_wait, patience_s)
        except BaseException:
            # Also after Ctrl-C: this process may live on, and later submissions would wait for it.
            mine.close()
            raise
        return mine

    def _wait_for_earlier(self, mine: Submission, on_wait: Tell, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        told: set[int] = set()
        while earlier := [
            submission
            for submission in self.submissions()
            if submission.number < mine.number and not submission.is_closed
        ]:
            for one in earlier:
                owner = one.owner()
                if not submitter_lives(one.owner_file, owner.process if owner else None):
                    one.close()
                elif one.number not in told:
                    told.add(one.number)
                    who = one.describe_owner()
                    on_wait(f"{who} is submitting into this run: waiting until that is done")
            if time.monotonic() > deadline:
                who = earlier[0].describe_owner()
                raise ClusterError(
                    f"{who} is still submitting into this run after {patience_s:.0f} s of waiting:"
                    " submit again later; if that process hangs, end it first"
                )
            mine.touch()
            time.sleep(0.2)

    def _take_number(self) -> Submission:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            mine = self.next()
            while True:
                with contextlib.suppress(FileExistsError):
                    mine.folder.mkdir()
                    return mine
                mine = self.submission(mine.number + 1)
        except OSError as error:
            raise StoreError(f"cannot write to {self._folder}: {error.strerror}") from error
