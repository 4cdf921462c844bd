"""The kinds of networks whose base learning rate is searched; `base_lr` builds them."""

import enum

__all__ = ["NetworkKind"]


class NetworkKind(enum.Enum):
    """The networks that can be searched."""

    TINY = "tiny"
    DAG_MLP = "dag-mlp"
    DAG_CNN = "dag-cnn"
