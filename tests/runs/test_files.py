"""Files are read whole up to a size, and refused unread beyond it."""

from __future__ import annotations

import pytest

from rebench.runs.files import OddFileError, read_file


def test_a_file_is_too_large_from_256_mib(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**28 + 1)
    with pytest.raises(OddFileError, match=f"it has more than {2**28} bytes"):
        read_file(tmp_path / "x")
    with (tmp_path / "x").open("r+b") as file:
        file.truncate(1000)
    assert read_file(tmp_path / "x", 1000) == bytes(1000)
    with pytest.raises(OddFileError, match="it has more than 999 bytes"):
        read_file(tmp_path / "x", 999)
