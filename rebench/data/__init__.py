"""Data sets as uint8 tensors on the device, their splits and their augmentation."""

from rebench.data.augment import BatchSource, draw_epoch, epoch_generator
from rebench.data.files import data_root, fetch, file_states, is_present
from rebench.data.images import DataSpec, Images, RawData
from rebench.data.registry import DATASETS, data_spec, load_data, read_raw
from rebench.data.splits import TrainingData, derived_halves, split_data, split_names

__all__ = [
    "DATASETS",
    "BatchSource",
    "DataSpec",
    "Images",
    "RawData",
    "TrainingData",
    "data_root",
    "data_spec",
    "derived_halves",
    "draw_epoch",
    "epoch_generator",
    "fetch",
    "file_states",
    "is_present",
    "load_data",
    "read_raw",
    "split_data",
    "split_names",
]
