"""Where trials run: a SLURM cluster, this machine, or this process."""

__all__: list[str] = []
