"""Files are read whole up to a size, and refused unread beyond it."""

from __future__ import annotations

import pytest

from rebench.runs.files import OddFileError, read_file


def test_a_file_is_too_large_from_256_mib(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**28 + 1)
    with pytest.raises(OddFileError, match=f"it has more than {2**28} bytes"):
        read_file(tmp_path / "x")
