"""Effect of each operation on paths, by its name in ATen, the library of torch.

An operation without an entry is opaque.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["KINDS", "UNARY", "OperationKind"]

OperationKind: TypeAlias = Literal[
    "input", "layer", "sum", "join", "norm", "view", "homogeneous", "pointwise", "opaque", "unknown"
]
"""Kind of a step of a network.

A view returns the same numbers. A homogeneous step commutes with a positive factor: ReLU, pools,
a product with a constant or a gate. A pointwise step does not: GELU, addition of a constant. Views,
homogeneous and pointwise steps and norms keep the paths of their input. No path has unknown steps.
"""

UNARY: Final[frozenset[OperationKind]] = frozenset(("norm", "view", "homogeneous", "pointwise"))

CONVOLUTIONS: Final = frozenset(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))
MATMULS: Final = frozenset(("matmul", "mm", "addmm"))
# Positions of the data, the weight and the bias among the arguments of a layer.
LAYERS: Final = {
    **dict.fromkeys(CONVOLUTIONS | {"linear"}, (0, 1, 2)),
    **dict.fromkeys(MATMULS, (0, 1, None)),
    "addmm": (1, 2, 0),
    "embedding": (1, 0, None),
}
SUMS, PRODUCTS = frozenset(("add", "sub", "rsub")), frozenset(("mul", "div"))
CONTRACTIONS: Final = frozenset(("matmul", "mm", "bmm", "einsum"))
# Position of the gain among the arguments of a normalisation; the shift follows it.
NORMS: Final = {
    "batch_norm": 1,
    "instance_norm": 1,
    "layer_norm": 2,
    "group_norm": 2,
    "rms_norm": 2,
}
CHANNELWISE: Final = frozenset(("batch_norm", "instance_norm"))

# Only the shape or the type of the second argument is used.
SHAPED_LIKE: Final = frozenset(("expand_as", "view_as", "reshape_as", "type_as", "to"))
# These can return a part of a value.
PARTS: Final = frozenset(("slice", "select", "narrow", "getitem", "diagonal"))
VIEWS: Final = (
    PARTS
    | SHAPED_LIKE
    | frozenset(
        ("view", "reshape", "flatten", "unflatten", "transpose", "permute", "t", "numpy_T", "mT",
         "adjoint", "swapaxes", "movedim", "squeeze", "unsqueeze", "expand", "alias", "contiguous",
         "clone", "_to_copy", "chunk", "split", "split_with_sizes", "tensor_split", "unbind")
    )
)  # fmt: skip
_HOMOGENEOUS: Final = frozenset(
    ("relu", "leaky_relu", "rrelu", "prelu", "neg", "abs", "mean", "sum", "amax", "max", "pad",
     "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "roll", "flip",
     "unfold", "im2col", "col2im", "repeat", "tile", "repeat_interleave", "dropout",
     "feature_dropout", "index_select", "gather", "tril", "triu",
     *(f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg") for n in (1, 2, 3)),
     *(f"adaptive_max_pool{n}d" for n in (1, 2, 3)),
     *(f"upsample_{kind}" for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d",
                                       "bilinear2d", "trilinear3d", "bicubic2d")))
)  # fmt: skip
# Results between 0 and 1, which act as weights of the values that they multiply.
GATES: Final = frozenset(("softmax", "sigmoid", "hardsigmoid"))
_CURVES: Final = frozenset(
    ("gelu", "silu", "tanh", "log_softmax", "elu", "selu", "celu", "softplus", "hardswish",
     "hardtanh", "relu6", "mish", "log_sigmoid", "exp", "expm1", "log", "log1p", "erf", "glu")
)  # fmt: skip
ACTIVATIONS: Final = _CURVES | GATES | {"relu", "leaky_relu", "rrelu", "prelu"}
_POINTWISE: Final = (
    _CURVES
    | GATES
    | frozenset(
        ("clamp", "clamp_min", "clamp_max", "threshold", "hardshrink", "softshrink",
         "alpha_dropout", "feature_alpha_dropout", "sqrt", "square", "sin", "cos", "pow", "where",
         "masked_fill", "nan_to_num")
    )
)  # fmt: skip
# If the input is multiplied by c, the output is multiplied by c to this power.
POWERS: Final = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "square": 2.0}
# The same for statistics over some of the dimensions.
STATISTICS: Final = {
    **dict.fromkeys(("mean", "sum", "amax", "amin", "std", "norm", "linalg_vector_norm"), 1.0),
    "var": 2.0,
}
CONSTANTS: Final = frozenset(
    ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros",
     "new_ones", "new_empty", "new_full", "bernoulli", "argmax")
)  # fmt: skip

KINDS: Final[dict[str, OperationKind]] = {
    **dict.fromkeys(VIEWS, "view"),
    **dict.fromkeys(_HOMOGENEOUS, "homogeneous"),
    **dict.fromkeys(_POINTWISE, "pointwise"),
}
"""Kind of each operation with one data input."""
