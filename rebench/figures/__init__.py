"""Figures for papers: drawn from tables, colour-blind safe, with their data saved beside them."""

from rebench.figures.style import COLOURS, MARKERS, new_figure, save_figure, styled

__all__ = ["COLOURS", "MARKERS", "new_figure", "save_figure", "styled"]
