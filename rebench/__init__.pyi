from cells import Cell

from . import analysis as analysis
from . import data as data
from . import modules as modules
from . import nats as nats
from . import nets as nets
from . import recipes as recipes
from . import report as report
from . import runs as runs
from . import search as search
from . import tables as tables
from . import train as train
from .analysis import compare
from .launch.status import status
from .launch.submit import submit
from .modules import plan
from .nats import ReBench
from .recipes import learning_rate as lr
from .runs import Trial
from .spaces.statistics import space
from .tables import Table
from .tables import open_any as open  # noqa: A004 - read as rebench.open
from .tables.collecting import collect
from .train import network

__version__: str

__all__ = [
    "Cell",
    "ReBench",
    "Table",
    "Trial",
    "__version__",
    "collect",
    "compare",
    "lr",
    "network",
    "open",
    "plan",
    "space",
    "status",
    "submit",
]
