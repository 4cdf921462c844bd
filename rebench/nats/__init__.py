"""Everything that knows others' files: those of ``nats_bench``, its calls, and rate surfaces."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
