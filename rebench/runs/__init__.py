"""Contents of a run folder: sweeps, trials and records. There is no server and no lock."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
