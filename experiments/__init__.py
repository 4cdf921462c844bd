"""Experiments of the papers, run from a clone; `rebench` never imports them."""
