"""Questions asked of tables: how rankings moved, and what noise alone would do."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
