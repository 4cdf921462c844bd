"""Pickles read as plain data: an allow-list of opcodes, then of names, and bounded memory.

A pickle is a program. Here it may build numbers, text, bytes, tuples, lists, dicts and sets, and
through the names that the caller allows, numpy arrays and scalars of numbers or text.
"""

from rebench.safe_pickle.loading import load_pickle
from rebench.safe_pickle.readers import DROPPED_TENSORS, NUMPY_NAMES, ORDERED_DICT, shown

__all__ = ["DROPPED_TENSORS", "NUMPY_NAMES", "ORDERED_DICT", "load_pickle", "shown"]
