"""Networks: the benchmark's, the DAG networks of the papers' experiments, stacked copies."""

from rebench.nets.layers import Layer, LayeredNet, Role
from rebench.nets.reference import reference_net
from rebench.nets.tiny import TinyNet

__all__ = ["Layer", "LayeredNet", "Role", "TinyNet", "reference_net"]
