from .augment import BatchSource, draw_epoch, epoch_generator
from .files import data_root, fetch, file_states, is_present
from .images import Images, RawData
from .loading import TrainingData, derived_halves, load_data, read_raw, split_data
from .spec import BENCHMARK, Archive, DataSpec, benchmark_data, data_spec, data_specs

__all__ = [
    "BENCHMARK",
    "Archive",
    "BatchSource",
    "DataSpec",
    "Images",
    "RawData",
    "TrainingData",
    "benchmark_data",
    "data_root",
    "data_spec",
    "data_specs",
    "derived_halves",
    "draw_epoch",
    "epoch_generator",
    "fetch",
    "file_states",
    "is_present",
    "load_data",
    "read_raw",
    "split_data",
]
