"""Reports: one page about a run, as self-contained HTML and as Markdown, and figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
