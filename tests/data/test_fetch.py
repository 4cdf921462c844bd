"""Downloads, from a real server on this machine with a generated archive."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from rebench.data import data_spec, fetch, read_raw
from rebench.errors import MissingDataError


def packed(members: dict[str, bytes]) -> bytes:
    """Return an archive with the folder of the official archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def spec_from(
    served,
    name: str = "cifar-10-python.tar.gz",
    md5: str | None = None,
    *,
    of: str = "cifar10",
    members: dict[str, bytes] | None = None,
):
    """Return a data set with a small archive on the local server."""
    folder, url = served
    content = packed(members or {"readme": b""})
    (folder / "cifar-10-python.tar.gz").write_bytes(content)
    spec, known = data_spec(of), md5 or hashlib.md5(content).hexdigest()
    archive = dataclasses.replace(spec.archive, url=f"{url}/{name}", md5=known)
    return dataclasses.replace(spec, archive=archive)


def test_archive_is_fetched_checked_and_kept(served, tmp_path: Path):
    spec = spec_from(served)
    path = fetch(spec, tmp_path / "root")
    assert path == tmp_path / "root/cifar-10-python.tar.gz"
    assert path.read_bytes() == (served[0] / path.name).read_bytes()
    (served[0] / path.name).unlink()
    assert fetch(spec, tmp_path / "root") == path  # a complete file is not fetched again


def test_archive_with_another_hash_is_not_kept(served, tmp_path: Path):
    with pytest.raises(MissingDataError, match="hash"):
        fetch(spec_from(served, md5="0" * 32), tmp_path / "root")
    assert not list((tmp_path / "root").iterdir())


def test_archive_that_is_not_served_is_named(served, tmp_path: Path):
    with pytest.raises(MissingDataError, match=r"nothing\.tar\.gz.*404"):
        fetch(spec_from(served, "nothing.tar.gz"), tmp_path / "root")


def test_part_is_fetched_as_the_official_archive_and_read(served, tmp_path: Path):
    """A small archive of the same format replaces the official archive."""
    content = pickle.dumps({b"data": np.full((3, 3072), 7, np.uint8), b"labels": [2, 0, 1]}, 2)
    spec = spec_from(
        served, of="cifar10-16", members=dict.fromkeys(("data_batch_1", "test_batch"), content)
    )
    assert fetch(spec, tmp_path).name == spec.archive.name
    raw = read_raw("cifar10-16", tmp_path)
    assert raw.train.pixels.shape == (3, 3, 16, 16)
    assert raw.train.pixels.unique().tolist() == [7]
    assert raw.test.labels.tolist() == [2, 0, 1]


def test_data_set_behind_a_login_says_where_to_get_it(tmp_path: Path):
    with pytest.raises(MissingDataError, match=r"image-net\.org"):
        fetch(data_spec("ImageNet16-120"), tmp_path)


def test_fetched_archive_without_the_files_is_reported_missing(served, tmp_path: Path):
    fetch(spec_from(served), tmp_path)
    with pytest.raises(MissingDataError, match="missing data_batch_1"):
        read_raw("cifar10", tmp_path)
