"""Helpers of the cluster tests: a private SLURM, and a sweep on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import PROJECT, run_here

from rebench.data import data_spec
from rebench.runs import FinishedTrials


@dataclass(frozen=True)
class Cluster:
    """A cluster that ``slurm/cluster`` started in `folder`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which clients and jobs find this SLURM, and no other."""
        rest = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return rest | {"SLURM_CONF": f"{self.folder}/slurm.conf"}

    def script(self, command: str, *options: str) -> str:
        """Run ``slurm/cluster COMMAND`` on this cluster."""
        line = [str(PROJECT / "slurm" / "cluster"), command, str(self.folder), *options]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, *command: str, check: bool = True) -> str:
        """Run a SLURM client such as ``squeue``; return what it prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def heal(self) -> None:
        """Act as an administrator: resume drained nodes, and release held jobs."""
        for node in self.ask("sinfo", "-h", "-N", "-t", "drain,down", "-o", "%N").split():
            # SLURM refuses to resume nodes that have resumed by themselves.
            self.ask("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        for line in self.ask("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i|%r").splitlines():
            job, _, reason = line.partition("|")
            if "held" in reason.lower():
                self.ask("scontrol", "release", job, check=False)


# Cells with one convolution: fast, and every recipe has a learning rate for them.
CELLS = [13434, 11538, 765, 8367, 11740, 9454, 14461, 11486, 6223, 11074]

SPEC = """
datasets = ["digits"]
recipes = ["nb201", "topology", {{ name = "fixed", parameters = {{ lr = 0.05 }} }}]
seeds = [777, 888]
epochs = {epochs}
[cells]
indices = {cells}
[skeleton]
channels = 4
cells_per_stage = 1
[slurm]
device = "cpu"
mem_gb = 0.5
time_min = 5
checkpoint_min = 0.002
"""


def unsafe_cifar(root: Path) -> Path:
    """Make a data folder in which CIFAR-10 exists but cannot be read, so that its trials fail."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name in data_spec("cifar10").files:
        (folder / name).write_bytes(b"cos\nsystem\n.")
    return root


def broken_init(folder: Path) -> str:
    """Write code that makes every trial of the recipe `topology` fail; return its set-up line."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(
        "from rebench.recipes.topology import Topology\n"
        "def fail(*_):\n    raise ValueError('no such init')\n"
        "Topology.layer_init = fail\n"
    )
    return f"export PYTHONPATH={folder}:$PYTHONPATH"


def has_pending(pid: int, number: signal.Signals) -> bool:
    """Return whether a signal waits for a stopped process, or the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    masks = [line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:")]
    return bool(int(masks[0], 16) >> (number - 1) & 1)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes; ignore those that have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Sweep:
    """One sweep of small, fast trials, controlled only through the command line."""

    def __init__(
        self, folder: Path, cluster: Cluster | None = None, *, epochs: int = 2, cells: int = 7
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.spec = folder / "sweep.toml"
        self.run = folder / "run"
        self.environment = cluster.environment if cluster else dict(os.environ)
        self.cluster = cluster
        # Words before each command, for example those that run it as another user.
        self.prefix: tuple[str, ...] = ()
        self.size = 6 * cells
        self.spec.write_text(SPEC.format(epochs=epochs, cells=CELLS[:cells]))

    def command(self, name: str, *options: str) -> list[str]:
        """Return the command line of a rebench command on this sweep."""
        place = [str(self.spec), "--run", str(self.run)] if name == "submit" else [str(self.run)]
        word = name.removesuffix(" RUN")
        return [*self.prefix, sys.executable, "-m", "rebench", word, *place, *options]

    def rebench(
        self, name: str, *options: str, code: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a rebench command and expect an exit code, or any if None.

        Commands that start no process run in the process of the test.
        """
        command = self.command(name, *options)
        if not (self.prefix or "--resubmit" in options or "local" in options):
            done = run_here(*command[3:], environment=self.environment)
        else:
            done = subprocess.run(
                command,
                env=self.environment,
                cwd=PROJECT,
                capture_output=True,
                text=True,
                check=False,
            )
        said = f"{name}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert code is None or done.returncode == code, said
        return done

    def submit(self, *options: str) -> dict[str, Any]:
        """Submit the pending trials; return the printed row."""
        return json.loads(self.rebench("submit", *options, "--json").stdout)[0]

    def counts(self) -> dict[str, Any]:
        """Return the number of trials in each state."""
        return json.loads(self.rebench("status", "--json").stdout)[0]

    def trials(self, state: str) -> list[dict[str, Any]]:
        """Return the trials in a state."""
        return json.loads(self.rebench("status", "--state", state, "--json").stdout)

    def records(self) -> int:
        """Return the current number of lines in the shards."""
        return sum(path.read_bytes().count(b"\n") for path in self.run.glob("results/*.jsonl"))

    def wait_for_records(self, count: int) -> None:
        """Wait until the shards contain this number of lines."""
        self.wait_until(lambda: self.records() >= count, f"{count} records")

    def wait_until_over(self) -> dict[str, Any]:
        """Wait until no job runs or waits; return the number of trials in each state."""
        self.rebench("watch", "--every-s", "0.5", code=None)
        return self.counts()

    def finish(self, *options: str) -> dict[str, Any]:
        """Finish the sweep as its owner would: watch it, and submit the remaining trials again."""
        for _ in range(3):
            counts = self.wait_until_over()
            if counts["done"] == self.size:
                break
            self.submit(*options)
        return self.wait_until_over()

    def wait_until(self, ready: Callable[[], bool], what: str, limit_s: float = 240) -> None:
        """Wait until `ready` returns true."""
        deadline = time.monotonic() + limit_s
        while not ready():
            if time.monotonic() > deadline:
                logs = [path.read_text()[-2000:] for path in self.run.glob("sub*/*/logs/*.log")]
                raise AssertionError(f"{what} did not come; {self.counts()}; {logs[-2:]}")
            time.sleep(0.1)

    def stop_workers_where(self, ready: Callable[[], bool], what: str, rank: int = 0) -> None:
        """Stop the workers of a rank; let them continue and try again until `ready` is true."""

        def stopped() -> bool:
            signal_all(self.workers(rank), signal.SIGSTOP)
            if ready():
                return True
            signal_all(self.workers(rank), signal.SIGCONT)
            return False

        self.wait_until(stopped, what)

    def outcomes(self) -> dict[str, Any]:
        """Check that each trial has exactly one valid record; return the outcome of every trial."""
        # `--partial`, because tests in which trials fail set `size` to the number of the others.
        collected = json.loads(self.rebench("collect", "--json", "--partial").stdout)[0]
        assert collected["damaged_lines"] == 0
        records = FinishedTrials(self.run).refresh().records
        assert collected["trials"] == len(records) == self.size
        return {trial_id: record["outcome"] for trial_id, record in records.items()}

    def jobs(self, state: str = "RUNNING", field: str = "%i") -> list[str]:
        """Return the jobs of this sweep in a state, array tasks one by one, or a field of each.

        A job of the previous test can run for a moment after its last record.
        """
        known = self.run / "run.json"
        prefix = f"rebench-{json.loads(known.read_text())['name']}-" if known.exists() else "/"
        shown = self.cluster.ask("squeue", "-h", "-r", "-t", state, "-o", f"{field} %j")
        lines = [line.partition(" ") for line in shown.splitlines()]
        return [job for job, _, name in lines if name.startswith(prefix)]

    def workers(self, rank: int = 0) -> list[int]:
        """Return the Python processes with this rank in all running jobs."""
        return [pid for job in self.jobs() for pid in self.worker_pids(job, rank)]

    def worker_pids(self, job: str, rank: int = 0) -> list[int]:
        """Return the Python processes of a job, found by SLURM's variables in their environment."""
        number, _, task = job.partition("_")
        marks = {f"SLURM_CONF={self.environment['SLURM_CONF']}", f"SLURM_PROCID={rank}"}
        if task:
            marks |= {f"SLURM_ARRAY_JOB_ID={number}", f"SLURM_ARRAY_TASK_ID={task}"}
        else:
            marks.add(f"SLURM_JOB_ID={number}")
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_text().split("\0")
                # The command line and the environment of the job's srun look like the worker's.
                if "rebench.launch.worker" not in command or command[0] == "srun":
                    continue
                if marks <= set((process / "environ").read_text().split("\0")):
                    found.append(int(process.name))
        return found
