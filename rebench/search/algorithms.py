"""The list of algorithms: importing this module registers them. A new file is one line here."""

from __future__ import annotations

from rebench.search import evolution as evolution
from rebench.search import local as local
from rebench.search import multifidelity as multifidelity
from rebench.search import predictor as predictor
from rebench.search import random as random
from rebench.search import reinforce as reinforce

__all__: list[str] = []
