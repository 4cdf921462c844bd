"""NAS algorithms that ask and tell on tables with simulated cost."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
