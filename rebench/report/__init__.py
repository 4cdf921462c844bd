"""One page about a run that a researcher can send to a colleague: self-contained HTML, Markdown."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
