"""What a run folder holds: trials, the sweeps they come from, and the records they leave.

The files are the truth; there is no server and no lock.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
