"""The launcher: it runs trials on a SLURM cluster, on this machine, or in this process."""

__all__: list[str] = []
