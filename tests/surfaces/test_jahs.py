"""JAHS-Bench-201: an archive that pandas 1.3 wrote, to a table."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import PROJECT

from cells import Cell
from rebench.errors import InputError, MissingDataError, RebenchError
from rebench.surfaces import ingest
from rebench.tables.opening import read_rows

ARCHIVE = PROJECT / "tests/surfaces/jahs/metric_data.tar"
SPLITS = {"train": "train-acc", "x-valid": "valid-acc", "ori-test": "test-acc"}


def contents() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def unpack(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("jahs") / "jahs.parquet"
    made = ingest("jahs-bench-201", ARCHIVE.parent, out)
    assert (made.runs, made.rows) == (120, 360)
    return read_rows(out)


def raw(task: str) -> pd.DataFrame:
    return pd.read_pickle(io.BytesIO(contents()[f"metric_data/{task}/raw.pkl.gz"]), "gzip")


def cell_of(features: pd.Series) -> int:
    """The cell of a configuration, spelt as its code does: vertices from 1, edges (from, to)."""
    names = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
    edges = ((1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4))
    op = {edge: names[int(features[f"Op{i}"])] for i, edge in enumerate(edges, start=1)}
    return Cell.parse(
        f"|{op[1, 2]}~0|+|{op[1, 3]}~0|{op[2, 3]}~1|+|{op[1, 4]}~0|{op[2, 4]}~1|{op[3, 4]}~2|"
    ).index


@pytest.mark.parametrize("task", ["cifar10", "fashion_mnist"])
def test_table_holds_the_last_epoch_of_every_configuration(task: str, table: pd.DataFrame):
    whole = raw(task)
    last = whole.groupby(("sampling_index", "model_ID")).tail(1)
    assert len(last) == 60
    ours = table[table["dataset"] == task].set_index(["learning_rate", "split"])
    assert len(ours) == 180
    for _, row in last.iterrows():
        features = row["features"]
        for split, metric in SPLITS.items():
            told = ours.loc[(features["LearningRate"], split)]
            assert told["index"] == cell_of(features)
            assert told["accuracy"] == pytest.approx(row["labels"][metric], nan_ok=True, abs=0)
            assert told["epochs"] == features["epoch"]
            assert told["recipe"] == f"fixed(lr={features['LearningRate']!r})"
            for column, name in (
                ("channels", "W"), ("cells_per_stage", "N"), ("resolution", "Resolution"),
                ("weight_decay", "WeightDecay"), ("activation", "Activation"),
            ):  # fmt: skip
                assert told[column] == features[name]
            assert (told["augmentation"] == "trivial") == features["TrivialAugment"]


def test_archive_folder_and_raw_files_are_one_table(table: pd.DataFrame, tmp_path: Path):
    ways = {
        "archive": ARCHIVE,
        "folder": unpack(tmp_path / "folder", contents()),
        "inside": tmp_path / "folder" / "metric_data",
        "raw": unpack(
            tmp_path / "raw", {name: data for name, data in contents().items() if "raw" in name}
        ),
    }
    for name, source in ways.items():
        ingest("jahs-bench-201", source, tmp_path / f"{name}.parquet")
        again = read_rows(tmp_path / f"{name}.parquet")
        pd.testing.assert_frame_equal(again, table)


def test_set_that_is_missing_is_named(tmp_path: Path):
    files = {name: data for name, data in contents().items() if "train_set" in name}
    with pytest.raises(MissingDataError, match=r"lacks valid_set\.pkl\.gz, test_set\.pkl\.gz"):
        ingest("jahs-bench-201", unpack(tmp_path, files), tmp_path / "out.parquet")
    with pytest.raises(MissingDataError, match=r"holds neither metric_data\.tar nor folders"):
        ingest("jahs-bench-201", tmp_path / "metric_data/cifar10", tmp_path / "o.parquet")


def test_archive_that_is_none_is_one_line(tmp_path: Path):
    (tmp_path / "metric_data.tar").write_bytes(b"no archive" * 100)
    with pytest.raises(InputError, match="not an uncompressed tar"):
        ingest("jahs-bench-201", tmp_path, tmp_path / "out.parquet")


def one_file(tmp_path: Path, data: bytes) -> Path:
    return unpack(tmp_path, {"cifar10/raw.pkl.gz": data})


def test_changed_bit_of_a_file_is_noticed(tmp_path: Path):
    data = contents()["metric_data/cifar10/raw.pkl.gz"]
    draw = np.random.default_rng(0)
    for _ in range(100):
        changed = bytearray(data)
        # The header's time and name say nothing of the content.
        changed[draw.integers(10, len(data))] ^= 1 << draw.integers(8)
        with pytest.raises(RebenchError, match=r"raw\.pkl\.gz"):
            ingest("jahs-bench-201", one_file(tmp_path, bytes(changed)), tmp_path / "o.parquet")
        assert not (tmp_path / "o.parquet").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (b"no gzip", "not a gzip file"),
        (contents()["metric_data/cifar10/raw.pkl.gz"][:-9], "truncated"),
        (gzip.compress(b""), "ends before its end"),
        (gzip.compress(bytes(64 << 20)), "unpacks to more than"),
        (gzip.compress(b"cos\nsystem\n(S'true'\ntR."), "not plain data"),
        (gzip.compress(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."), "asks for os.system"),
    ],
    ids=["empty", "other", "cut", "nothing in it", "bomb", "program", "call"],
)
def test_file_that_is_damaged_or_crafted_is_one_line(data: bytes, message: str, tmp_path: Path):
    with pytest.raises(RebenchError, match=message) as refused:
        ingest("jahs-bench-201", one_file(tmp_path, data), tmp_path / "out.parquet")
    assert "\n" not in str(refused.value)
    assert "raw.pkl.gz" in str(refused.value)


def replaced(old: bytes, new: bytes) -> bytes:
    data = gzip.decompress(contents()["metric_data/cifar10/raw.pkl.gz"])
    assert old in data
    return gzip.compress(data.replace(old, new))


def number(column: str, value: float) -> bytes:
    """The raw file with the first accuracy or rate changed."""
    first = raw("cifar10").iloc[0][("labels" if "acc" in column else "features", column)]
    return replaced(np.float64(first).tobytes(), np.float64(value).tobytes())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (number("test-acc", 100.5), "test-acc must be from 0 to 100 percent, got 100.5"),
        (number("valid-acc", -1.0), "valid-acc must be from 0 to 100"),
        (number("LearningRate", np.nan), "LearningRate must be a number from 1e-09 to 100"),
        (number("LearningRate", 0.0), "LearningRate must be a number from 1e-09 to 100, got 0"),
        (number("WeightDecay", -1.0), "WeightDecay must be"),
        (replaced(b"Mish", b"Fish"), "Activation 'Fish'; valid: ReLU, Hardswish, Mish"),
        (replaced(b"SGD", b"GSD"), "Optimizer 'GSD'"),
        (replaced(b"test-acc", b"best-acc"), "no column labels test-acc"),
        (replaced(b"Op3", b"Op7"), "no column features Op3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_value_that_is_wrong_is_named(data: bytes, message: str, tmp_path: Path):
    with pytest.raises(RebenchError, match=message):
        ingest("jahs-bench-201", one_file(tmp_path, data), tmp_path / "out.parquet")


def test_configuration_that_was_run_twice_has_two_seeds(tmp_path: Path):
    files = contents()
    sets = {"train": "train", "valid": "valid", "test": "valid"}
    again = {
        f"{name}_set.pkl.gz": files[f"metric_data/cifar10/{other}_set.pkl.gz"]
        for name, other in sets.items()
    }
    ingest(
        "jahs-bench-201",
        unpack(tmp_path, {f"cifar10/{name}": data for name, data in again.items()}),
        tmp_path / "out.parquet",
    )
    rows = read_rows(tmp_path / "out.parquet")
    assert rows["seed"].value_counts().to_dict() == {0: 150, 1: 30}
