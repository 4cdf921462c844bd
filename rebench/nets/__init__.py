"""Networks: the benchmark's, the DAG networks of the papers' experiments, stacked copies."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.nets.dagnet import DagCNN, DagMLP, DagNet
    from rebench.nets.layers import Layer, LayeredNet, Role
    from rebench.nets.reference import reference_net
    from rebench.nets.stacked import Stacked
    from rebench.nets.tiny import TinyNet

__all__ = [
    "DagCNN",
    "DagMLP",
    "DagNet",
    "Layer",
    "LayeredNet",
    "Role",
    "Stacked",
    "TinyNet",
    "reference_net",
]

load_on_demand(__name__)
