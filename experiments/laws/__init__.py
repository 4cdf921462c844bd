"""The laws behind the recipes, measured, each beside its paper's own figure.

Run from a clone: ``python -m experiments.laws list``.
"""
