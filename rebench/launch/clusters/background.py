"""``python -m rebench.launch.clusters.background PICKLE PROCESSES PYTHON``: a job of this machine.

This process leads the session of the job. It submits the task in a pickle with submitit's
LocalExecutor, and waits for its end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from submitit import LocalExecutor
from submitit.helpers import DelayedSubmission

__all__ = ["main"]

# A hundred years: jobs of this machine have no time limit.
_NO_LIMIT_MIN: Final = 100 * 365 * 24 * 60
# Seconds between two signals to a job that was told to end.
_REPEAT_S: Final = 1.0


def main(pickle: str, processes: str, python: str) -> None:
    """Run a task in a number of processes, which `python` starts; forward SIGTERM to them.

    The signal is repeated, because submitit ignores it until the worker listens.
    """
    path = Path(pickle)
    gpus = [int(number) for number in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if number]
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    executor = LocalExecutor(path.parent, python=python)
    executor.update_parameters(
        timeout_min=_NO_LIMIT_MIN,
        tasks_per_node=int(processes),
        gpus_per_node=len(gpus),
        visible_gpus=gpus,
        stderr_to_stdout=True,
    )
    task = DelayedSubmission.load(path).function
    path.unlink()
    job = executor.submit(task)
    next_s = 0.0
    while not job.done():
        if asked and time.monotonic() >= next_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(job.job_id), signal.SIGTERM)
            next_s = time.monotonic() + _REPEAT_S
        time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
