"""Data frames that pandas 1.3 pickled, read without pandas: columns of numbers and text.

Their layout is a block manager of arrays, an index over the rows and one over the columns. Only
that is understood; the row index is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from rebench.errors import UnsafeFileError
from rebench.safe_pickle.inert import read_inert
from rebench.safe_pickle.readers import DType, check_size, shown
from rebench.safe_pickle.tree import Call, Name, Pairs

__all__ = ["Column", "read_frame"]

Column: TypeAlias = tuple[str, ...]

_ARRAY: Final = frozenset(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core"))
_SCALAR: Final = frozenset(f"numpy.{core}.multiarray.scalar" for core in ("core", "_core"))
_DTYPE: Final = frozenset({"numpy.dtype"})
_INDEX: Final = frozenset({"pandas.core.indexes.base._new_Index"})
_FRAME: Final = frozenset({"pandas.core.frame.DataFrame"})
_MANAGER: Final = frozenset({"pandas.core.internals.managers.BlockManager"})
_SLICE: Final = frozenset({"builtins.slice"})
_PARTIAL: Final = frozenset({"functools.partial"})
_PLAIN: Final = (str, bool, int, float, type(None))
_MOST_COLUMNS: Final = 1000
_MOST_LEVELS: Final = 3


def read_frame(data: bytes, what: str) -> dict[Column, np.ndarray[Any, Any]]:
    """Return the columns of a pickled data frame, each an array of numbers or of plain objects.

    Raises:
        UnsafeFileError: it is damaged, or anything else than a data frame of numbers and text.
    """
    tree = read_inert(data, what)
    try:
        return _columns(tree)
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise UnsafeFileError(
            f"{what}: not a data frame as pandas 1.3 writes it: {error}"
        ) from error


def _columns(tree: Any) -> dict[Column, np.ndarray[Any, Any]]:
    frame = _call(tree, _FRAME)
    manager = _call(frame.state.get("_mgr"), _MANAGER)
    blocks, (names, _) = manager.arguments
    labels = list(_labels(names))
    if len(set(labels)) != len(labels) or len(labels) > _MOST_COLUMNS:
        raise ValueError(f"{len(labels)} columns, some of one name, or more than {_MOST_COLUMNS}")
    found: dict[Column, np.ndarray[Any, Any]] = {}
    for block in blocks:
        values, places = _block(block)
        if len(values) != len(places):
            raise ValueError(f"{len(values)} columns in a block for {len(places)}")
        for place, column in zip(places, values, strict=True):
            if labels[place] in found:
                raise ValueError("a column that two blocks hold")
            found[labels[place]] = column
    lengths = {len(column) for column in found.values()}
    if len(found) != len(labels) or len(lengths) > 1:
        raise ValueError(f"{len(labels)} columns are named, {len(found)} are there, or cut short")
    return found


def _call(value: Any, names: frozenset[str]) -> Call:
    if type(value) is not Call or type(value.function) is not Name:
        raise ValueError(f"{shown(value)} where {min(names)} must be")
    if str(value.function) not in names:
        raise ValueError(f"it asks for {value.function}")
    return value


def _block(block: Any) -> tuple[np.ndarray[Any, Any], range]:
    """Return the values [columns, rows] of a block, and which columns they are."""
    if type(block) is not Call:
        raise ValueError(f"{shown(block)} where a block must be")
    _call(block.function, _PARTIAL)
    values, placed = block.arguments
    array = _array(values)
    if array.ndim != 2:
        raise ValueError(f"a block of {array.ndim} dimensions")
    if type(placed) is Call and type(placed.function) is Name and str(placed.function) in _SLICE:
        start, stop, step = placed.arguments
        if not all(type(n) is int and 0 <= n <= _MOST_COLUMNS for n in (start, stop, step)):
            raise ValueError("a block's columns are out of bounds")
        return array, range(start, stop, step)
    places = _array(placed)
    if places.ndim != 1 or places.dtype.kind not in "iu" or len(places) > _MOST_COLUMNS:
        raise ValueError("a block's columns are no whole numbers")
    if len(places) and not 0 <= places.min() <= places.max() <= _MOST_COLUMNS:
        raise ValueError("a block's columns are out of bounds")
    return array, places.tolist()


def _array(value: Any) -> np.ndarray[Any, Any]:
    """Return an array that shares memory with the file; of objects, only plain ones."""
    version, shape, described, fortran, raw = _call(value, _ARRAY).state
    if version != 1 or type(fortran) is not bool:
        raise ValueError("an array of another version")
    order: Any = "F" if fortran else "C"
    if _call(described, _DTYPE).arguments[0] in ("O8", "O"):
        return _objects(shape, raw, order)
    dtype = _dtype(described)
    check_size(shape, dtype, raw)
    array: np.ndarray[Any, Any] = np.frombuffer(raw, dtype.value).reshape(shape, order=order)
    return array


def _objects(shape: Any, raw: Any, order: Any) -> np.ndarray[Any, Any]:
    if type(raw) is not list:
        raise ValueError("an array of objects without objects")
    raw = [_scalar(one) if type(one) is Call else one for one in raw]
    if not all(type(one) in _PLAIN for one in raw):
        raise ValueError("an array of objects that are no text or numbers")
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("an array without a shape")
    array = np.empty(len(raw), dtype=object)
    array[:] = raw
    return array.reshape(shape, order=order)


def _scalar(value: Any) -> Any:
    described, raw = _call(value, _SCALAR).arguments
    dtype = _dtype(described)
    check_size((), dtype, raw)
    return np.frombuffer(raw, dtype.value)[0].item()


def _dtype(described: Any) -> DType:
    dtype = DType(*_call(described, _DTYPE).arguments)
    dtype.__setstate__(described.state)
    return dtype


def _labels(index: Any) -> Iterator[Column]:
    """Yield the names of the columns, each by its levels."""
    kind, told = _call(index, _INDEX).arguments
    if type(kind) is not Name or type(told) is not Pairs:
        raise ValueError("an index without a kind")
    if kind.name != "MultiIndex":
        yield from ((_text(name),) for name in _array(told.get("data")))
        return
    levels = [list(_labels(level)) for level in _listed(told.get("levels"))]
    codes = [_array(code) for code in _listed(told.get("codes"))]
    if len(levels) != len(codes) or len(levels) > _MOST_LEVELS:
        raise ValueError(f"{len(levels)} levels with {len(codes)} codes")
    for level, code in zip(levels, codes, strict=True):
        if code.ndim != 1 or code.dtype.kind != "i" or len(code) > _MOST_COLUMNS:
            raise ValueError("codes that are no whole numbers, or too many")
        if len(code) and not 0 <= code.min() <= code.max() < len(level):
            raise ValueError("codes beyond their level")
    for row in zip(*(code.tolist() for code in codes), strict=True):
        yield tuple(levels[place][code][0] for place, code in enumerate(row))


def _listed(value: Any) -> list[Any]:
    """Return a list, which pandas may have frozen."""
    if type(value) is Call:
        [value] = value.arguments
    if type(value) not in (list, tuple) or len(value) > _MOST_LEVELS:
        raise ValueError(f"{shown(value)} where a short list must be")
    return list(value)


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError(f"{shown(value)} where a column's name must be")
    return value
