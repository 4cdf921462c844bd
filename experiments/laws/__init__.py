"""Measurements of the laws behind the recipes, compared with the values of the papers.

Run from a clone: ``python -m experiments.laws list``.
"""
