"""Figures for papers: drawn from tables, colour-blind safe, with their data saved beside them."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.figures.style import COLOURS, MARKERS, new_figure, save_figure, styled

__all__ = ["COLOURS", "MARKERS", "new_figure", "save_figure", "styled"]

load_on_demand(__name__)
