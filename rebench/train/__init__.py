"""From trials to records: the benchmark's protocol, resumable at any step, several at a time.

Names are looked up when they are asked for: steps and optimiser are tensors alone, and whoever
uses only those need not have what trials and records need.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
