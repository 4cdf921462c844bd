"""Pickles read as plain data: an allow-list of opcodes, then of names, and bounded memory.

A pickle is a program. Here it may build numbers, text, bytes, tuples, lists, dicts and sets, and
through the names that the caller allows, numpy arrays and scalars of numbers or text. Larger ones,
and data frames, are read as inert trees (`read_inert`), in which nothing is ever called.
"""

from rebench.safe_pickle.bounds import bounded
from rebench.safe_pickle.frames import Column, read_frame
from rebench.safe_pickle.inert import read_inert
from rebench.safe_pickle.loading import load_pickle
from rebench.safe_pickle.readers import DROPPED_TENSORS, NUMPY_NAMES, ORDERED_DICT, shown
from rebench.safe_pickle.tree import Call, Name, Pairs

__all__ = [
    "DROPPED_TENSORS",
    "NUMPY_NAMES",
    "ORDERED_DICT",
    "Call",
    "Column",
    "Name",
    "Pairs",
    "bounded",
    "load_pickle",
    "read_frame",
    "read_inert",
    "shown",
]
