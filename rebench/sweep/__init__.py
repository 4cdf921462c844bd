"""What is to be trained: trials, and the sweeps they come from."""

from rebench.sweep.trial import Plain, Protocol, RecipeSpec, Skeleton, Trial

__all__ = ["Plain", "Protocol", "RecipeSpec", "Skeleton", "Trial"]
