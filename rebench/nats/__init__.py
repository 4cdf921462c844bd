"""Everything that knows the ``nats_bench`` package: its files, its calls, and its format."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.nats.api import ReBench, create
    from rebench.nats.choice import Choice
    from rebench.nats.export import export_nats
    from rebench.nats.naslib import export_naslib
    from rebench.nats.pth import export_pth
    from rebench.nats.synetune import export_syne_tune

__all__ = [
    "Choice",
    "ReBench",
    "create",
    "export_naslib",
    "export_nats",
    "export_pth",
    "export_syne_tune",
]

load_on_demand(__name__)
