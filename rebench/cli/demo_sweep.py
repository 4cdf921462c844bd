"""What the demonstration trains: its cells, its epochs, its sweep's file."""

from typing import Final

__all__ = ["CELLS", "EPOCHS", "SPEC"]

# `fixed` at the rule's base rate is the control: is it the rule, or merely a larger rate?
SPEC: Final = """\
# What `rebench demo` trains: {n} cells x 3 recipes x 3 seeds on scikit-learn's digits under noise.
datasets = ["digits-noisy"]
recipes = ["nb201", "topology", {{ name = "fixed", parameters = {{ lr = 0.46 }} }}]
seeds = [777, 888, 999]
epochs = {epochs}
stack = 9

[cells]
indices = {cells}

[skeleton]
channels = 4
cells_per_stage = 1

[protocol]
batch_size = 64
augment = false

[slurm]
setup = ["export OMP_NUM_THREADS=1"]
device = "cpu"
time_min = 60
"""

# From the weakest to the best on the benchmark, one of a functional class: cells that a few seconds
# tell apart. All are cells of `experiments/surface`.
CELLS: Final = (
    *(7062, 9619, 6927, 1696, 6169, 10052, 6203, 10364, 3954, 3979, 1739, 11821),
    *(2903, 11865, 11122, 10789, 9393, 12900, 5891, 8420, 102, 15501, 2238, 1335),
)

# Enough to tell these cells apart, and few enough for a minute on two cores.
EPOCHS: Final = 4
