"""``python -m rebench.launch.clusters.background NAME PROCESSES PYTHON``: a job of this machine.

This process leads the session of the job. It starts the workers with submitit's LocalExecutor, and
waits for their end. NAME is the name of the job, for those who list the processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from typing import Final

from submitit import LocalExecutor

__all__ = ["main"]

# A hundred years: jobs of this machine have no time limit.
_NO_LIMIT_MIN: Final = 100 * 365 * 24 * 60
# Seconds between two signals to a job that was told to end.
_REPEAT_S: Final = 1.0


def main(name: str, processes: str, python: str) -> None:  # noqa: ARG001 - the name is for readers
    """Run the command `python` in a number of processes; forward SIGTERM to them.

    The signal is repeated, because a worker that is about to start does not get it.
    """
    gpus = [int(number) for number in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if number]
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    with tempfile.TemporaryDirectory() as folder:
        executor = LocalExecutor(folder, python=python)
        executor.update_parameters(
            timeout_min=_NO_LIMIT_MIN,
            tasks_per_node=int(processes),
            gpus_per_node=len(gpus),
            visible_gpus=gpus,
            stderr_to_stdout=True,
        )
        # submitit needs a function, which it pickles; the command contains the work, and no process
        # loads the pickle.
        job = executor.submit(print)
        next_s = 0.0
        while not job.done():
            if asked and time.monotonic() >= next_s:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(job.job_id), signal.SIGTERM)
                next_s = time.monotonic() + _REPEAT_S
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
