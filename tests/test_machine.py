"""Garbage collection and memory limits are restored after use; the processor has a name."""

import gc
import resource
import sys
from pathlib import Path

import pytest
from support import python

from rebench.errors import UnsafeFileError
from rebench.machine import bounded_memory, garbage_search_paused, processor


@pytest.fixture(autouse=True)
def _collecting():
    yield
    gc.enable()


def test_processor_is_the_model_that_the_system_names():
    told = Path("/proc/cpuinfo").read_text()
    assert processor()
    assert f": {processor()}\n" in told or "model name" not in told


@pytest.mark.parametrize("before", [True, False])
def test_garbage_collection_is_paused_and_restored(before):
    (gc.enable if before else gc.disable)()
    with garbage_search_paused():
        assert not gc.isenabled()
    assert gc.isenabled() is before
    with pytest.raises(KeyError), garbage_search_paused():
        raise KeyError
    assert gc.isenabled() is before


@pytest.mark.skipif(sys.platform != "linux", reason="the limit holds on Linux")
def test_memory_limit_of_a_reader_is_restored():
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with bounded_memory("f", most_bytes=2**33):
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        assert hard == before[1]
        assert abs(soft - used - 2**33) < 2**28, "other threads may take some meanwhile"
        with bounded_memory("g", most_bytes=2**40):
            assert resource.getrlimit(resource.RLIMIT_AS) == (soft, hard)
        with (
            pytest.raises(UnsafeFileError, match="g: takes more than 1048576"),
            bounded_memory("g", most_bytes=1048576),
        ):
            raise MemoryError
        assert resource.getrlimit(resource.RLIMIT_AS) == (soft, hard)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize("error", [OverflowError, RecursionError])
def test_file_without_end_is_refused(error):
    with pytest.raises(UnsafeFileError, match=r"^f: refused or damaged file"), bounded_memory("f"):
        raise error


def test_garbage_collection_is_rarer_in_our_process():
    code = "import gc, rebench.machine as m; m.search_garbage_rarely(); print(gc.get_threshold())"
    assert python("-c", code).stdout == f"{(10_000, *gc.get_threshold()[1:])}\n"
