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
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from rebench.errors import ClusterError, StoreError
from rebench.launch.liveness import submitter_lives
from rebench.runs import Plain, SlurmOptions, TrainOptions
from rebench.runs.claims import ProcessMark, this_process
from rebench.runs.files import read_file, without_following
from rebench.runs.folder import Kept, Tell, read_kept, unheard, write_kept
from rebench.runs.shards import write_atomically

__all__ = ["Chunk", "Groups", "Intent", "Journal", "Owner", "Sent", "Submission"]

# Names of the folders of submissions, such as ``0001``.
_NUMBER: Final = re.compile("[0-9]{4}|[1-9][0-9]{4,}")


class Owner(Kept):
    """The user and the process that submit."""

    user: str
    process: ProcessMark


class Sent(Kept):
    """The jobs of a chunk, in order, after it was submitted."""

    jobs: tuple[Annotated[str, Field(pattern=r"^\d+(_\d+)?$")], ...]
    process: ProcessMark | None = None


# The work of a job: trials by their ids, in groups that are trained as one network.
Groups: TypeAlias = tuple[tuple[str, ...], ...]


class Chunk(Plain):
    """Jobs that are submitted together, as one array of the scheduler."""

    name: str
    """The name of its jobs in the queue. It ends with the number of the chunk."""
    jobs: tuple[Groups, ...]

    @property
    def number(self) -> int:
        """Position of the chunk in its submission."""
        return int(self.name.rpartition(".")[2])

    @property
    def trials(self) -> list[str]:
        """The trials of all jobs."""
        groups = itertools.chain.from_iterable(self.jobs)
        return list(itertools.chain.from_iterable(groups))

    def trials_of(self, task: int) -> tuple[str, ...]:
        """Return the trials of one job, in order."""
        return tuple(itertools.chain.from_iterable(self.jobs[task]))

    def sent_as(self, number: str) -> Sent:
        """Return the jobs of the chunk, given the number of its array or of its only job."""
        if len(self.jobs) == 1:
            return Sent(jobs=(number,))
        return Sent(jobs=tuple(f"{number}_{at}" for at in range(len(self.jobs))))


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

    def owner(self) -> Owner | None:
        """Return the owner; None if its file is not written yet."""
        return read_kept(Owner, self.owner_file)

    def describe_owner(self) -> str:
        """Return the owner in words."""
        owner = self.owner()
        if owner is None:
            return f"submission {self.number}"
        return f"{owner.user}@{owner.process.host} (process {owner.process.pid})"


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
