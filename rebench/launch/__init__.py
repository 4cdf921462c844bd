"""Where trials run: a SLURM cluster, this machine, or this process, through submitit."""

__all__: list[str] = []
