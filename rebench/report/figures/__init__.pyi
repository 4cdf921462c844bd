from .style import COLOURS, MARKERS, new_figure, styled

__all__ = ["COLOURS", "MARKERS", "new_figure", "styled"]
