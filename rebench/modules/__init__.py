"""Any torch module: its graph of paths, its rates and init by a recipe, and what one step does."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
