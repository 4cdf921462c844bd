"""Kill at random whatever trains a sweep on a private SLURM, and count what that cost.

Run from the project's root: .venv/bin/python scripts/bench/chaos.py [--kills 300] [--seed 0].
Needs Debian's slurm-wlm and munge. The sweep's 60 trials are trained again and again, by one owner
who keeps submitting, until so many faults have happened; every round's records are compared with
those of an undisturbed run, bit for bit. The seed decides which faults come, in which order and
after which pauses; whom they hit depends on what runs at that moment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from results_file import publish

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT / "tests"))
sys.path.insert(0, str(PROJECT))  # the scripts beside this one would hide packages

from cluster import Cluster, Sweep, signal_all  # noqa: E402 - after the path

from rebench.store import FinishedTrials, load_records  # noqa: E402 - after the path

NODES = ("n1", "n2", "n3")
PAUSE_S = (0.2, 4.0)
# How long a round may go on after its last fault before it counts as stuck.
PATIENCE_S = 600.0


def main() -> None:
    """Measure and publish; exit with 1 if anything was lost, doubled, changed or stuck."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="rebench-"))
    cluster = Cluster(folder / "c")
    cluster.script("start")
    try:
        quiet = _sweep(folder / "quiet", None, options)
        quiet.submit("--cluster", "debug")
        wanted = quiet.outcomes()
        draw = random.Random(options.seed)  # noqa: S311 - a plan that can be had again
        chaos = Chaos(cluster, draw, options.kills)
        rounds = 0
        while chaos.plan:
            rounds += 1
            chaos.trouble(_sweep(folder / f"round{rounds}", cluster, options), wanted)
    finally:
        cluster.script("stop")
        shutil.rmtree(folder, ignore_errors=True)
    bad = {name: chaos.found[name] for name in ("lost", "double", "changed", "stuck")}
    rows: list[dict[str, object]] = [
        {"what": f"fault: {name}", "count": count} for name, count in sorted(chaos.done.items())
    ]
    rows += [
        {"what": "faults", "count": chaos.done.total()},
        {"what": "rounds", "count": rounds},
        {"what": "trials", "count": rounds * quiet.size},
        *({"what": name, "count": count, "bar": 0} for name, count in bad.items()),
    ]
    if options.json:
        print(json.dumps(rows))
    else:
        publish("chaos", rows, seed=options.seed)
    raise SystemExit(any(bad.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="faults in all")
    parser.add_argument("--cells", type=int, default=10, help="a round has six trials of each")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the rows, and write no file")
    return parser.parse_args()


def _sweep(folder: Path, cluster: Cluster | None, options: argparse.Namespace) -> Sweep:
    return Sweep(folder, cluster, epochs=options.epochs, cells=options.cells)


def _is_done(sweep: Sweep) -> bool:
    return len(FinishedTrials(sweep.run).refresh().trials) == sweep.size


class Chaos:
    """Faults that are still to come, those that have happened, and what they cost."""

    def __init__(self, cluster: Cluster, draw: random.Random, kills: int) -> None:
        self._cluster, self._draw = cluster, draw
        self._faults: Mapping[str, Callable[[Sweep], bool]] = {
            "worker killed": self._kill_worker,
            "job cancelled": self._cancel_job,
            "job requeued": self._requeue_job,
            "jobs preempted": self._preempt,
            "slurmd killed": self._kill_slurmd,
            "slurmctld killed": self._kill_slurmctld,
            "node down": self._down,
            "submitter killed": self._kill_submitter,
        }
        self.plan = [
            (draw.choice(sorted(self._faults)), draw.uniform(*PAUSE_S)) for _ in range(kills)
        ]
        self.done: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self._owner: subprocess.Popen[bytes] | None = None

    def trouble(self, sweep: Sweep, wanted: Mapping[str, object]) -> None:
        """Train a sweep with faults from the plan while it goes on, and compare its records."""
        try:
            while self.plan and not _is_done(sweep):
                self._submit(sweep)
                name, pause_s = self.plan[0]
                time.sleep(pause_s)
                # What finds nothing to hit waits until there is something.
                if self._faults[name](sweep):
                    self.done[name] += 1
                    self.plan.pop(0)
                self._cluster.heal()
            self._bring_to_its_end(sweep)
        finally:
            self._end_owner()
        loaded = load_records(sweep.run)
        outcomes = {trial_id: record["outcome"] for trial_id, record in loaded.records.items()}
        changed = {one for one, outcome in outcomes.items() if outcome != wanted[one]}
        self.found["lost"] += len(wanted.keys() - outcomes.keys())
        self.found["double"] += loaded.duplicates
        self.found["changed"] += len(changed | loaded.conflicts.keys())

    def _bring_to_its_end(self, sweep: Sweep) -> None:
        """Let the owner go on until all is done and no job is left."""
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
        """See to it that the sweep has an owner who sends what is pending."""
        if self._owner is None or self._owner.poll() is not None:
            line = sweep.command(
                "submit",
                "--keep-going",
                "--every-s",
                "1",
                "--retry-failed",
                "--trials-per-job",
                "6",
            )
            with (sweep.spec.parent / "owner.log").open("ab") as log:
                self._owner = subprocess.Popen(
                    line, env=sweep.environment, cwd=PROJECT, stdout=log, stderr=log
                )

    def _end_owner(self) -> bool:
        owner, self._owner = self._owner, None
        if owner is None or owner.poll() is not None:
            return False
        owner.kill()
        owner.wait()
        return True

    def _kill_worker(self, sweep: Sweep) -> bool:
        workers = sorted(sweep.workers())
        if workers:
            signal_all([self._draw.choice(workers)], signal.SIGKILL)
        return bool(workers)

    def _cancel_job(self, sweep: Sweep) -> bool:
        return self._to_a_job(sweep, "scancel")

    def _requeue_job(self, sweep: Sweep) -> bool:
        return self._to_a_job(sweep, "scontrol", "requeue")

    def _to_a_job(self, sweep: Sweep, *command: str) -> bool:
        jobs = sorted(sweep.jobs())
        if jobs:
            self._cluster.ask(*command, self._draw.choice(jobs), check=False)
        return bool(jobs)

    def _preempt(self, sweep: Sweep) -> bool:
        if not sweep.jobs():
            return False
        everything = ["-N3", "--exclusive", "--wrap", "sleep 1", "-o", "/dev/null"]
        self._cluster.ask("sbatch", "-p", "urgent", *everything)
        return True

    def _kill_slurmd(self, _: Sweep) -> bool:
        return bool(node := self._busy_node()) and self._restart(node)

    def _kill_slurmctld(self, sweep: Sweep) -> bool:
        return bool(sweep.jobs()) and self._restart("slurmctld")

    def _restart(self, daemon: str) -> bool:
        self._cluster.script("kill", daemon)
        time.sleep(self._draw.uniform(0.0, 2.0))
        self._cluster.script("run", daemon)
        return True

    def _down(self, _: Sweep) -> bool:
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

    def _kill_submitter(self, _: Sweep) -> bool:
        return self._end_owner()


if __name__ == "__main__":
    main()
