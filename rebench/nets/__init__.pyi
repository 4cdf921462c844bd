from .layers import Layer, LayeredNet, Role
from .reference import reference_net
from .stacked import Stacked
from .tiny import TinyNet

__all__ = [
    "Layer",
    "LayeredNet",
    "Role",
    "Stacked",
    "TinyNet",
    "reference_net",
]
