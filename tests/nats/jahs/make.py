"""Write metric_data.tar as JAHS-Bench-201's own tools do, with made-up accuracies.

Its data were written by pandas 1.3. Later versions of pandas write other pickles. Therefore the
archive is stored next to this script, which wrote it with Python 3.9, pandas 1.3.5 and numpy
1.21.6::

    python make.py
"""

import io
import random
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd

METRICS = ("FLOPS", "latency", "runtime", "size_MB", "test-acc", "train-acc", "valid-acc")
SETS = {"train": (0, 40), "valid": (40, 50), "test": (50, 60)}
EPOCHS = 3


def configurations(n, rng):
    rows = []
    for _ in range(n):
        row = {"Activation": rng.choice(["ReLU", "Hardswish", "Mish"])}
        row.update(LearningRate=10 ** rng.uniform(-3, 0), N=rng.choice([1, 3, 5]))
        row.update({f"Op{edge}": rng.randrange(5) for edge in range(1, 7)})
        row.update(Optimizer="SGD", Resolution=rng.choice([0.25, 0.5, 1.0]))
        row.update(TrivialAugment=rng.random() < 0.5, W=rng.choice([4, 8, 16]))
        row.update(WeightDecay=10 ** rng.uniform(-5, -2))
        rows.append(row)
    return rows


def raw(task):
    rng = random.Random(task)
    features, labels, index = [], [], []
    for model, row in enumerate(configurations(60, rng)):
        # The last configuration diverged after its first epoch.
        for epoch in range(1, 2 if model == 59 else EPOCHS + 1):
            features.append(dict(row, epoch=epoch))
            accuracies = [rng.uniform(10, 90) for _ in range(3)]
            if model == 59:
                accuracies = [float("nan")] * 3
            values = [rng.uniform(1, 200), 0.01, rng.uniform(10, 1000), 0.5, *accuracies]
            labels.append({name: values[place] for place, name in enumerate(METRICS)})
            index.append({"fidelity_ID": row["N"], "model_ID": model})
    parts = {"features": features, "labels": labels, "sampling_index": index}
    return pd.concat({name: pd.DataFrame(rows) for name, rows in parts.items()}, axis=1)


def files(task):
    whole = raw(task)
    yield "raw.pkl.gz", whole
    models = whole["sampling_index"]["model_ID"]
    rng = np.random.RandomState(0)
    for name, (first, end) in SETS.items():
        part = whole[models.between(first, end - 1)]
        part = part.iloc[rng.permutation(len(part))]
        columns = {"features": part["features"], "labels": part["labels"]}
        if name == "train":
            columns["groups"] = part["sampling_index"]["model_ID"]
            columns["strata"] = part["sampling_index"]["fidelity_ID"]
        yield f"{name}_set.pkl.gz", pd.concat(columns, axis=1)


if __name__ == "__main__":
    with tarfile.open(Path(__file__).parent / "metric_data.tar", "w") as archive:
        for task in ("cifar10", "fashion_mnist"):
            for name, frame in files(task):
                stream = io.BytesIO()
                frame.to_pickle(stream, compression={"method": "gzip", "mtime": 0}, protocol=4)
                info = tarfile.TarInfo(f"metric_data/{task}/{name}")
                info.size = stream.tell()
                stream.seek(0)
                archive.addfile(info, stream)
