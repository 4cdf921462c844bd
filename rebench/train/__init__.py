"""Training of trials to records by the benchmark's protocol, in stacks, resumable at any step.

Names are imported on first use: steps and the optimiser need only torch, without the dependencies
of trials and records.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
