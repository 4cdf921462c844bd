"""What the cluster tests share: a handle on a private SLURM."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support import PROJECT


@dataclass(frozen=True)
class Cluster:
    """A cluster that ``slurm/cluster`` started in `folder`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What clients and jobs need to find it, and nothing of another SLURM."""
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
