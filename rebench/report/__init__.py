"""Reports: one page about a run, as HTML and as Markdown; a page to explore tables; figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
