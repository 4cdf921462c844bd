"""Rules for the learning rate and the initialisation, one rule in each file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
