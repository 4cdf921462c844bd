"""The one list of data sets: what each one is. Reading their images is `rebench.data`'s.

A data set is one entry of `ours`, or comes with a package of the user's, which announces a
`DataSpec` of its own::

    [project.entry-points."rebench.datasets"]
    mine = "my_package.my_images:SPEC"
"""

from rebench.datasets.known import BENCHMARK, benchmark_data, data_spec, data_specs
from rebench.datasets.spec import Archive, DataSpec, ExpectedFile

__all__ = [
    "BENCHMARK",
    "Archive",
    "DataSpec",
    "ExpectedFile",
    "benchmark_data",
    "data_spec",
    "data_specs",
]
