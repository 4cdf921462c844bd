from .layers import Layer, LayeredNet, Role
from .reference import reference_net
from .spaces import network_builder
from .stacked import Stacked
from .tiny import TinyNet

__all__ = [
    "Layer",
    "LayeredNet",
    "Role",
    "Stacked",
    "TinyNet",
    "network_builder",
    "reference_net",
]
