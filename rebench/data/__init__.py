"""Data sets as uint8 tensors on the device, their splits and their augmentation."""

__all__: list[str] = []
