"""Files and calls of programs by others: ``nats_bench``, exports, learning-rate surfaces."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
