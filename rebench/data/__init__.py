"""Data sets as uint8 tensors on the device, their splits and their augmentation."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.data.augment import BatchSource, draw_epoch, epoch_generator
    from rebench.data.files import data_root, fetch, file_states, is_present
    from rebench.data.images import Images, RawData
    from rebench.data.loading import load_data, read_raw
    from rebench.data.splits import TrainingData, derived_halves, split_data

__all__ = [
    "BatchSource",
    "Images",
    "RawData",
    "TrainingData",
    "data_root",
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

load_on_demand(__name__)
