"""Records that claim more than they hold are refused, each within its work and 300 MB."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile

import pytest
from crafted_records import CELL, crafted_records
from nats_folder import make_folder
from support import PROJECT

from rebench.errors import InputError, UnsafeFileError
from rebench.nats.ingest import ingest

# Limit of function calls in Python and C. Unlike seconds, calls do not depend on other programs.
# The largest count of a record is 23 million.
CALLS = 40_000_000
MEGABYTES = 300

# Each record is read in a separate process, because a record may kill the process.
READER = """
import json, os, resource, sys
from pathlib import Path
from rebench.errors import RebenchError
from rebench.machine import bounded_memory
from rebench.nats.files import CellResults, read_results

for path in sorted(Path(sys.argv[1]).iterdir()):
    data = path.read_bytes()
    pid = os.fork()
    if not pid:
        before, calls = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0

        def count(*_):
            global calls
            calls += 1

        # A record that needs much work within one call is ended by this limit of CPU time.
        resource.setrlimit(resource.RLIMIT_CPU, (180, 180))
        sys.setprofile(count)
        try:
            with bounded_memory("record"):
                read_results(data, int(sys.argv[2]), "record", CellResults())
            said = "read"
        except RebenchError as error:
            said = str(error)
        sys.setprofile(None)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps([int(path.name), said, calls, used / 1024]), flush=True)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        print(json.dumps([int(path.name), "died", 0, 0]), flush=True)
"""


@pytest.mark.slow
def test_every_crafted_record_is_refused_in_one_line_within_its_bounds(tmp_path):
    records = crafted_records()
    assert len(records) >= 45
    for number, data in enumerate(records.values()):
        (tmp_path / str(number)).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), str(CELL)],
        cwd=PROJECT, capture_output=True, text=True, check=True, timeout=1200,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(records)
    names = list(records)
    wrong = [
        (names[number], said, calls, round(megabytes))
        for number, said, calls, megabytes in answers
        if not said.startswith("record: ")
        or len(said) > 300
        or "\n" in said
        or calls > CALLS
        or megabytes > MEGABYTES
    ]
    assert not wrong


def test_a_loop_of_links_is_named(tmp_path):
    folder = make_folder(tmp_path / "simple", [2])
    (folder / "000007.pickle.pbz2").symlink_to(folder / "000007.pickle.pbz2")
    with pytest.raises(InputError, match=r"000007\.pickle\.pbz2"):
        ingest(folder, tmp_path / "t.parquet", jobs=1)


@pytest.mark.parametrize("size", [2**50, 2**62, -(2**40)])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_member_that_claims_more_than_its_tar_is_refused(tmp_path, size, kind):
    member = tarfile.TarInfo("000002.pickle.pbz2")
    member.size, member.type = size, kind
    archive = tmp_path / "a.tar"
    archive.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(20 * 512))
    with pytest.raises((InputError, UnsafeFileError), match=r"a\.tar|000002\.pickle") as caught:
        ingest(archive, tmp_path / "t.parquet", jobs=1)
    assert "\n" not in str(caught.value)


def test_other_peoples_meta_files_are_passed_over(tmp_path):
    folder = make_folder(tmp_path / "simple", [2])
    (folder / "meta.txt").write_text("notes")
    (folder / "meta.json").write_text("{}")
    assert ingest(folder, tmp_path / "t.parquet", jobs=1).cells == 1
