"""Everything that knows the ``nats_bench`` package: its files, its calls, and its format."""

from rebench.nats.api import ReBench, create
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats

__all__ = ["Choice", "ReBench", "create", "export_nats"]
