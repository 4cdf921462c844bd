"""Inject random faults into a sweep on a private SLURM, and count lost and wrong records.

Run from the project's root: .venv/bin/python scripts/bench/chaos.py [--kills 300] [--seed 0].
Needs Debian's slurm-wlm and munge. One owner submits the sweep's 60 trials repeatedly, until the
number of faults is reached. The records of every round are compared bit by bit with those of an
undisturbed run. The seed decides the faults, their order and the pauses between them. The victim
of a fault depends on the processes that run at that moment.

A long run may be interrupted: a file (--progress) keeps the results of finished rounds. The same
command then continues after the last finished round.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from results_file import PROJECT, RESULTS, publish

sys.path.insert(0, str(PROJECT / "tests"))

from cluster import Cluster, Sweep, signal_all

from rebench.runs import FinishedTrials, write_atomically

MEASURES = ("rebench/launch", "rebench/runs", "rebench/train")
NODES = ("n1", "n2", "n3")
PAUSE_S = (0.2, 4.0)
# Longest time of a round after its last fault; a longer round counts as stuck.
PATIENCE_S = 600.0
# Stop after this number of consecutive rounds that failed or hit nothing.
TRIES = 3
BAD = ("lost", "double", "changed", "silently missing", "stuck")


def main() -> None:
    """Measure and publish; exit with 1 if a count in `BAD` is not 0."""
    # A SIGTERM must also stop the cluster.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Background jobs of a shell ignore Ctrl-C; without this line owners would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = _options()
    progress = Progress.of(options)
    folder = Path(tempfile.mkdtemp(prefix="rebench-"))
    try:
        quiet = _sweep(folder / "quiet", None, options)
        quiet.submit("--cluster", "debug")
        _rounds(folder, quiet.outcomes(), options, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    bad = {name: progress.found[name] for name in BAD}
    rows: list[dict[str, object]] = [
        {"what": f"fault: {name}", "count": count} for name, count in sorted(progress.done.items())
    ]
    rows += [
        {"what": "faults", "count": progress.done.total()},
        {"what": "rounds", "count": progress.rounds},
        {"what": "rounds begun again", "count": progress.found["again"]},
        {"what": "trials", "count": progress.rounds * quiet.size},
        *({"what": name, "count": count, "bar": 0} for name, count in bad.items()),
    ]
    if options.json:
        print(json.dumps(rows))
    else:
        publish("chaos", rows, seed=options.seed)
    progress.remove()
    raise SystemExit(any(bad.values()))


def _rounds(
    folder: Path,
    wanted: Mapping[str, object],
    options: argparse.Namespace,
    progress: Progress,
) -> None:
    """Run the rest of the plan; repeat a round if the private cluster fails."""
    draw = random.Random(options.seed)  # noqa: S311 - a reproducible plan
    plan = [(draw.choice(sorted(FAULTS)), draw.uniform(*PAUSE_S)) for _ in range(options.kills)]
    broken = 0
    while plan[progress.done.total() :]:
        name = f"{progress.rounds + 1}.{progress.found['again']}"
        cluster = Cluster(folder / f"c{name}")
        chaos = Chaos(cluster, draw, plan[progress.done.total() :])
        try:
            cluster.script("start")
            chaos.trouble(_sweep(folder / name, cluster, options), wanted)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            broken += 1
            if broken == TRIES:
                raise
            print(f"round {name} failed: {error}", file=sys.stderr)
            progress.found["again"] += 1
            continue
        finally:
            # A broken cluster may fail to stop.
            with contextlib.suppress(AssertionError, OSError, subprocess.SubprocessError):
                cluster.script("stop")
            shutil.rmtree(folder / name, ignore_errors=True)
        progress.add(chaos)
        broken = 0 if chaos.done else broken + 1
        if broken == TRIES:
            raise SystemExit(f"{TRIES} rounds in a row found nothing to hit")
        found = ", ".join(f"{progress.found[one]} {one}" for one in BAD)
        print(
            f"{dt.datetime.now(dt.timezone.utc):%H:%M:%S} round {progress.rounds}:"
            f" {progress.done.total()} of {options.kills} faults; {found}",
            file=sys.stderr,
            flush=True,
        )


@dataclass
class Progress:
    """Results of the finished rounds, in a file from which the next call resumes."""

    file: Path | None
    # Two calls with the same values belong to one run.
    of_plan: dict[str, int]
    done: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    rounds: int = 0

    @classmethod
    def of(cls, options: argparse.Namespace) -> Progress:
        """Return the progress of an earlier call with the same plan."""
        of_plan = {name: getattr(options, name) for name in ("seed", "kills", "cells", "epochs")}
        file = options.progress
        if file is None or not file.exists():
            return cls(file, of_plan)
        kept = json.loads(file.read_text())
        if kept["plan"] != of_plan:
            raise SystemExit(f"{file} is of another run ({kept['plan']}): remove it to start again")
        return cls(file, of_plan, Counter(kept["done"]), Counter(kept["found"]), kept["rounds"])

    def add(self, chaos: Chaos) -> None:
        """Add the results of a finished round."""
        self.done += chaos.done
        self.found += chaos.found
        self.rounds += 1
        if self.file is not None:
            kept = {"plan": self.of_plan, "rounds": self.rounds}
            content = json.dumps({**kept, "done": self.done, "found": self.found}, indent=1)
            write_atomically(self.file, content.encode())

    def remove(self) -> None:
        """Remove the file, so that the next call starts from the beginning."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="faults in all")
    parser.add_argument("--cells", type=int, default=10, help="a round has six trials of each")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the rows, and publish nothing")
    parser.add_argument("--progress", type=Path, help="(default: in the folder of the results)")
    options = parser.parse_args()
    if options.progress is None and not options.json:
        options.progress = RESULTS / "chaos.progress.json"
    return options


def _sweep(folder: Path, cluster: Cluster | None, options: argparse.Namespace) -> Sweep:
    return Sweep(folder, cluster, epochs=options.epochs, cells=options.cells)


def _is_done(sweep: Sweep) -> bool:
    return len(FinishedTrials(sweep.run).refresh().trials) == sweep.size


class Chaos:
    """Faults of the plan, faults that have happened, and counts of their damage."""

    def __init__(
        self, cluster: Cluster, draw: random.Random, plan: Sequence[tuple[str, float]]
    ) -> None:
        self._cluster, self._draw = cluster, draw
        self._plan = list(plan)
        self.done: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self._owner: subprocess.Popen[bytes] | None = None

    def trouble(self, sweep: Sweep, wanted: Mapping[str, object]) -> None:
        """Train a sweep under faults from the plan, and compare its records."""
        try:
            last = time.monotonic()
            while self._plan and not _is_done(sweep) and time.monotonic() - last < PATIENCE_S:
                self._submit(sweep)
                name, pause_s = self._plan[0]
                time.sleep(pause_s)
                # A fault without a target is tried again later.
                if FAULTS[name](self, sweep):
                    self.done[name] += 1
                    self._plan.pop(0)
                    last = time.monotonic()
                self._cluster.heal()
            self._bring_to_its_end(sweep)
        finally:
            self._end_owner()
        finished = FinishedTrials(sweep.run).refresh()
        outcomes = {trial_id: record["outcome"] for trial_id, record in finished.records.items()}
        changed = {one for one, outcome in outcomes.items() if outcome != wanted[one]}
        self.found["lost"] += len(wanted.keys() - outcomes.keys())
        self.found["double"] += finished.duplicates
        self.found["changed"] += len(changed | finished.conflicts.keys())
        self.found["silently missing"] += self._silently_missing(sweep)

    @staticmethod
    def _silently_missing(sweep: Sweep) -> int:
        """Count the trials that the tables lack although `collect` reports success."""
        done = sweep.rebench("collect", "--json", code=None)
        return 0 if done.returncode else sweep.size - json.loads(done.stdout)[0]["trials"]

    def _bring_to_its_end(self, sweep: Sweep) -> None:
        """Restart the owner when it ends, until all trials are done and no job is left."""
        deadline = time.monotonic() + PATIENCE_S
        while not (done := _is_done(sweep)) or sweep.jobs("PENDING,RUNNING,COMPLETING"):
            if time.monotonic() > deadline:
                self.found["stuck"] += 1
                self._cluster.ask("scancel", "--full", "--user", str(os.getuid()), check=False)
                return
            if not done:
                self._submit(sweep)
            self._cluster.heal()
            time.sleep(1)

    def _submit(self, sweep: Sweep) -> None:
        """Start an owner that submits pending trials, if none runs."""
        if self._owner is None or self._owner.poll() is not None:
            send = sweep.command("submit", "--retry-failed", "--trials-per-job", "6")
            keep = sweep.command("watch", "--resubmit", "--every-s", "1")
            line = ["sh", "-c", f"{shlex.join(send)}; exec {shlex.join(keep)}"]
            with (sweep.spec.parent / "owner.log").open("ab") as log:
                self._owner = subprocess.Popen(
                    line,
                    env=sweep.environment,
                    cwd=PROJECT,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def _end_owner(self, number: signal.Signals = signal.SIGKILL) -> bool:
        """End the owner and all processes of its session."""
        owner, self._owner = self._owner, None
        if owner is None or owner.poll() is not None:
            return False
        os.killpg(owner.pid, number)
        try:
            owner.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(owner.pid, signal.SIGKILL)
            owner.wait()
        return True

    def kill_worker(self, sweep: Sweep) -> bool:
        """Kill the process that trains in one job."""
        workers = sorted(sweep.workers())
        if workers:
            signal_all([self._draw.choice(workers)], signal.SIGKILL)
        return bool(workers)

    def stop_worker(self, sweep: Sweep) -> bool:
        """Stop a worker for some seconds, like a node that swaps."""
        workers = sorted(sweep.workers())
        if workers:
            stopped = [self._draw.choice(workers)]
            signal_all(stopped, signal.SIGSTOP)
            time.sleep(self._draw.uniform(1.0, 6.0))
            signal_all(stopped, signal.SIGCONT)
        return bool(workers)

    def damage_shard(self, sweep: Sweep) -> bool:
        """Write zeros into a line of a shard to which a worker may be appending."""
        shards = sorted(sweep.run.glob("results/*.jsonl"))
        shard = self._draw.choice(shards) if shards else None
        if shard is None or (size := shard.stat().st_size) < 1000:
            return False
        with shard.open("r+b") as file:
            file.seek(self._draw.randrange(size - 200))
            file.write(bytes(100))
        return True

    def shift_clock(self, sweep: Sweep) -> bool:
        """Shift the times of files by an hour, like a node with a wrong clock."""
        kept = sorted([*sweep.run.glob("progress/*"), *sweep.run.glob("claims/*")])
        then = time.time() + self._draw.choice((-3600, 3600))
        for path in kept:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (then, then))
        return bool(kept)

    def interrupt_submitter(self, _: Sweep) -> bool:
        """Press Ctrl-C in the terminal of the owner."""
        return self._end_owner(signal.SIGINT)

    def cancel_job(self, sweep: Sweep) -> bool:
        """Cancel one job."""
        return self._to_a_job(sweep, "scancel")

    def requeue_job(self, sweep: Sweep) -> bool:
        """Requeue one job."""
        return self._to_a_job(sweep, "scontrol", "requeue")

    def _to_a_job(self, sweep: Sweep, *command: str) -> bool:
        jobs = sorted(sweep.jobs())
        if jobs:
            self._cluster.ask(*command, self._draw.choice(jobs), check=False)
        return bool(jobs)

    def preempt(self, sweep: Sweep) -> bool:
        """Submit a job of high priority that takes all nodes."""
        if not sweep.jobs():
            return False
        everything = ["-N3", "--exclusive", "--wrap", "sleep 1", "-o", "/dev/null"]
        self._cluster.ask("sbatch", "-p", "urgent", *everything)
        return True

    def kill_slurmd(self, _: Sweep) -> bool:
        """Kill and restart the daemon of a busy node."""
        return bool(node := self._busy_node()) and self._restart(node)

    def kill_slurmctld(self, sweep: Sweep) -> bool:
        """Kill and restart the controller."""
        return bool(sweep.jobs()) and self._restart("slurmctld")

    def _restart(self, daemon: str) -> bool:
        self._cluster.script("kill", daemon)
        time.sleep(self._draw.uniform(0.0, 2.0))
        self._cluster.script("run", daemon)
        return True

    def down(self, _: Sweep) -> bool:
        """Take a busy node down."""
        node = self._busy_node()
        if node:
            self._cluster.script("kill", node)
            down = (f"NodeName={node}", "State=DOWN", "Reason=chaos")
            self._cluster.ask("scontrol", "update", *down)
            self._cluster.script("run", node)
        return bool(node)

    def _busy_node(self) -> str:
        shown = self._cluster.ask("squeue", "-h", "-t", "RUNNING", "-o", "%N").split()
        busy = sorted({name for name in shown if name in NODES})
        return self._draw.choice(busy) if busy else ""

    def kill_submitter(self, _: Sweep) -> bool:
        """Kill the owner's submitter."""
        return self._end_owner()


FAULTS: Mapping[str, Callable[[Chaos, Sweep], bool]] = {
    "worker killed": Chaos.kill_worker,
    "job cancelled": Chaos.cancel_job,
    "job requeued": Chaos.requeue_job,
    "jobs preempted": Chaos.preempt,
    "slurmd killed": Chaos.kill_slurmd,
    "slurmctld killed": Chaos.kill_slurmctld,
    "node down": Chaos.down,
    "submitter killed": Chaos.kill_submitter,
    "submitter interrupted": Chaos.interrupt_submitter,
    "worker stopped for a while": Chaos.stop_worker,
    "shard damaged inside": Chaos.damage_shard,
    "files dated an hour off": Chaos.shift_clock,
}


if __name__ == "__main__":
    main()
