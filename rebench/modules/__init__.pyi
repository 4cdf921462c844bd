from .network import Network, read_network
from .planning import plan
from .plans import ParameterPlan, Plan
from .tracing import UntraceableError

__all__ = ["Network", "ParameterPlan", "Plan", "UntraceableError", "plan", "read_network"]
