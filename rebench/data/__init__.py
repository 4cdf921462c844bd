"""Data sets: their list, and their images on the device as uint8 tensors, split and augmented."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
