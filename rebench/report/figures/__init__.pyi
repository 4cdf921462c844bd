from .style import COLOURS, MARKERS, new_figure, save_figure, styled

__all__ = ["COLOURS", "MARKERS", "new_figure", "save_figure", "styled"]
