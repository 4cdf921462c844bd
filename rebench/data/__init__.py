"""Data sets: the list of them, and as uint8 tensors on the device, split and augmented."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
