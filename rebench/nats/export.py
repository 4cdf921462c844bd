"""Tables to NATS-Bench's own formats, for code that knows only ``nats_bench``."""

from __future__ import annotations

import bz2
import collections
import concurrent.futures
import itertools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from cells import SPACE_SIZE, Cell
from rebench.machine import cores
from rebench.nats.about import Exported, OnProgress, marker, written
from rebench.nats.choice import Choice
from rebench.nats.packaged import Measured, epoch_names, package_measured
from rebench.nats.streaming import stream_dict
from rebench.nats.template import START, MakeCell, Memo, cell_pickles, empty_memo
from rebench.tables.columns import SPLITS

__all__ = ["cell_states", "export_nats", "stream_space"]

_LATENCY: Final = "a latency that was not measured is [-1.0], which the package reads as none"
_MOST_WAITING: Final = 32
# What bzip2 compresses at once.
_BLOCK_BYTES: Final = 900_000


def export_nats(
    choice: Choice,
    out: Path,
    *,
    one_file: bool = False,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write every cell that has values, as a ``-simple`` folder or as one file.

    ``nats_bench.create(out, "tss", fast_mode=True)`` opens the folder, ``fast_mode=False`` the
    file. What the tables do not hold is not there: a cell without values has no entry, nor has a
    data set.

    Args:
        choice: which tables answer.
        out: the folder to write, or the ``.pickle.pbz2`` file.
        one_file: write one file instead of a folder.
        force: replace `out` where it exists.
        on_progress: called with how many cells were written since the last call.
    """
    cells = choice.cells.tolist()
    form = "NATS-Bench's topology space, " + ("one file" if one_file else "one file a cell")
    with written(choice, out, form, cells=len(cells), force=force, notes=(_LATENCY,)) as unfinished:
        write = _write_file if one_file else _write_folder
        write(choice, unfinished, on_progress)
    return Exported(path=out, cells=len(cells), missing=SPACE_SIZE - len(cells))


def _whole_space(choice: Choice) -> dict[str, Any]:
    """Return what a file of the package begins with; ``rebench`` says whose values follow."""
    archs = [str(Cell.from_index(index)) for index in range(SPACE_SIZE)]
    return {"meta_archs": archs, "total_archs": SPACE_SIZE, "rebench": marker(choice)}


def stream_space(
    write: Callable[[bytes], object], choice: Choice, make: MakeCell, on_progress: OnProgress
) -> None:
    """Write the one pickle of all cells; `make` gives what is written of one."""

    def cells(memo: Memo) -> Iterator[tuple[int, bytes]]:
        for cell in cell_pickles(choice, make, memo):
            yield cell
            on_progress(1)

    start = {**_whole_space(choice), "evaluated_indexes": choice.cells.tolist()}
    names = [epoch_names(split, epochs) for split in SPLITS[1:] for epochs in choice.epochs]
    shared = list(itertools.chain.from_iterable(names))
    stream_dict(write, start, "arch2infos", cells, shared)


def cell_states(index: int, arch: str, found: list[Measured]) -> dict[str, dict[str, Any]]:
    """Return a cell's results by number of epochs, as the package writes them."""
    packaged = package_measured(index, arch, found)
    states = {hp: results.state_dict() for hp, results in packaged.items()}
    for state in states.values():
        for trial in state["all_results"].values():
            if trial["latency"] is None:
                trial["latency"] = [-1.0]
    return states


def _write_folder(choice: Choice, folder: Path, on_progress: OnProgress) -> None:
    folder.mkdir()
    meta = {**_whole_space(choice), "arch2infos": None, "evaluated_indexes": set()}
    (folder / "meta.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(meta, 4)))
    with _Compressor() as compressor:
        for index, states in cell_pickles(choice, cell_states, empty_memo()):
            path = folder / f"{index:06d}.pickle.pbz2"
            compressor.add(START + states + pickle.STOP, path.write_bytes)
            on_progress(1)


def _write_file(choice: Choice, path: Path, on_progress: OnProgress) -> None:
    waiting: list[bytes] = []
    with path.open("wb") as stream, _Compressor() as compressor:

        def write(data: bytes) -> None:
            waiting.append(data)
            if sum(map(len, waiting)) > _BLOCK_BYTES:
                compressor.add(b"".join(waiting), stream.write)
                waiting.clear()

        stream_space(write, choice, cell_states, on_progress)
        compressor.add(b"".join(waiting), stream.write)


class _Compressor:
    """Compresses in threads, beside the making of what comes next, and writes in order."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(cores())
        self._running: collections.deque[tuple[Any, Callable[[bytes], object]]] = (
            collections.deque()
        )

    def add(self, data: bytes, write: Callable[[bytes], object]) -> None:
        self._running.append((self._pool.submit(bz2.compress, data), write))
        if len(self._running) > _MOST_WAITING:
            self._write_one()

    def _write_one(self) -> None:
        future, write = self._running.popleft()
        write(future.result())

    def __enter__(self) -> _Compressor:  # noqa: PYI034 - final
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        while self._running and kind is None:
            self._write_one()
        self._pool.shutdown(cancel_futures=True)
