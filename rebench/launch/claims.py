"""Claims: which worker trains a trial just now, so that no two live workers train the same.

A claim is a file ``claims/<trial>.<generation>``, linked into place whole; the file system lets
one of two linkers win. A worker that finds a claim whose holder has ended takes the next
generation; the highest is the holder. Whoever was overtaken (a copy of a requeued job that still
lives on a node the controller lost) sees that before it appends its record, and throws it away.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Collection
from pathlib import Path

from pydantic import ValidationError

from rebench.launch.files import Kept
from rebench.launch.processes import ProcessMark

__all__ = ["Claims", "Holder"]


class Holder(Kept):
    """Who holds a claim: one attempt of one job, and its process."""

    worker: str
    job: str
    attempt: int
    cluster: str
    # Empty in claims of version 0.1.
    user: str = ""
    process: ProcessMark
    # How often in a row the trial's worker died while training it, without a new checkpoint.
    # What the scheduler took from it (a preemption, a lost node) is no death.
    deaths: int = 0


class Claims:
    """The claims of a run, as one worker sees them."""

    def __init__(
        self,
        run: Path,
        me: Holder,
        lives: Callable[[Holder], bool],
        died: Callable[[Holder], bool] = lambda _: True,
    ) -> None:
        self._folder = run / "claims"
        self._checkpoints = run / "checkpoints"
        self._me = me
        self._lives = lives
        self._died = died
        self._held: dict[str, int] = {}

    def take(self, trial_id: str) -> Holder | None:
        """Claim a trial; return what was claimed, or None if a live worker holds it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                generation, holder = self._current(trial_id)
            except PermissionError:
                # Of a colleague whose files are closed: what cannot be known counts as live.
                return None
            claim = self._me
            if holder is not None and generation:
                requeued = self._is_former_self(holder)
                if not requeued and self._lives(holder):
                    return None
                deaths = holder.deaths + (not requeued and self._died(holder))
                progress = self._moved_on(trial_id, generation)
                claim = self._me.model_copy(update={"deaths": 0 if progress else deaths})
            if self._link(trial_id, generation + 1, claim):
                self._held[trial_id] = generation + 1
                return claim

    def siblings_hold(self, trial_ids: Collection[str]) -> bool:
        """Return whether other processes of this worker's own job train some of these trials."""
        claimed = self._generations().keys() & set(trial_ids)
        holders = (self._current(trial_id)[1] for trial_id in claimed)
        return any(one and self._is_sibling(one) and self._lives(one) for one in holders)

    def is_held_elsewhere(self, trial_id: str) -> bool:
        """Return whether a live worker of another job is training the trial."""
        holder = self._current(trial_id)[1]
        if holder is None or self._is_former_self(holder) or self._is_sibling(holder):
            return False
        return holder.process != self._me.process and self._lives(holder)

    def holds(self, trial_id: str) -> bool:
        """Return whether this worker is still the holder."""
        return trial_id in self._held and self._current(trial_id)[0] == self._held[trial_id]

    def release(self, trial_id: str) -> None:
        """Give a claim up, if it is still this worker's."""
        if not self.holds(trial_id):
            self._held.pop(trial_id, None)
            return
        for generation in range(self._held.pop(trial_id), 0, -1):
            path = self._folder / f"{trial_id}.{generation}"
            if not path.exists():
                break
            path.unlink(missing_ok=True)

    def _is_former_self(self, holder: Holder) -> bool:
        # A requeued job may come back on another node; the number is the controller's.
        return self._is_same_job(holder) and holder.attempt < self._me.attempt

    def _is_sibling(self, holder: Holder) -> bool:
        same_attempt = self._is_same_job(holder) and holder.attempt == self._me.attempt
        return same_attempt and holder.process != self._me.process

    def _is_same_job(self, holder: Holder) -> bool:
        return (holder.cluster, holder.job) == (self._me.cluster, self._me.job)

    def _moved_on(self, trial_id: str, generation: int) -> bool:
        """Return whether a checkpoint was written since the claim was made."""
        claim = self._folder / f"{trial_id}.{generation}"
        with contextlib.suppress(OSError):
            since = claim.stat().st_mtime
            folder = self._checkpoints / trial_id
            return any(path.stat().st_mtime > since for path in folder.iterdir())
        return False

    def _current(self, trial_id: str) -> tuple[int, Holder | None]:
        generation = self._generations().get(trial_id, 0)
        if not generation:
            return 0, None
        try:
            content = (self._folder / f"{trial_id}.{generation}").read_bytes()
            return generation, Holder.model_validate_json(content, extra="ignore")
        except FileNotFoundError:
            return self._current(trial_id)
        except ValidationError:
            return generation, None

    def _generations(self) -> dict[str, int]:
        """Return the highest generation of every claim there is."""
        highest: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._folder):
                trial_id, _, generation = entry.name.partition(".")
                if trial_id and generation.isdigit():
                    highest[trial_id] = max(highest.get(trial_id, 0), int(generation))
        return highest

    def _link(self, trial_id: str, generation: int, claim: Holder) -> bool:
        target = self._folder / f"{trial_id}.{generation}"
        temporary = self._folder / f".{trial_id}.{secrets.token_hex(6)}"
        content = claim.model_dump_json()
        try:
            temporary.write_text(content)
            os.link(temporary, target)
        except FileExistsError:
            # A network file system may have done it and lost the answer.
            with contextlib.suppress(FileNotFoundError):
                return target.read_text() == content
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True
