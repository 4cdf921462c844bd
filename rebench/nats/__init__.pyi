from .api import ReBench, create
from .choice import Choice
from .export import export_nats, export_pth
from .naslib import export_naslib
from .synetune import export_syne_tune

__all__ = [
    "Choice",
    "ReBench",
    "create",
    "export_naslib",
    "export_nats",
    "export_pth",
    "export_syne_tune",
]
