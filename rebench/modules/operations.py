"""What an operation does to paths: one table by name, whoever traced the network.

Names are compared in lower case without underscores, so that ``adaptive_avg_pool2d`` of a traced
function and the module `AdaptiveAvgPool2d` are one. What no table knows is opaque.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["Kind", "canonical", "unary_kind"]

Kind: TypeAlias = Literal[
    "input", "layer", "sum", "join", "norm", "view", "homogeneous", "pointwise", "opaque"
]
"""What a step of a network is.

A view hands on the same numbers. A homogeneous step commutes with a positive factor: ReLU, pools,
a product with a constant. A pointwise one does not: GELU, a constant added. All three, and norms,
have one input and hand on its paths.
"""

_SPELLINGS: Final = {
    "iadd": "add", "radd": "add", "isub": "sub", "rsub": "sub", "subtract": "sub",
    "imul": "mul", "rmul": "mul", "multiply": "mul",
    "truediv": "div", "itruediv": "div", "divide": "div", "truedivide": "div",
    "concat": "cat", "concatenate": "cat",
}  # fmt: skip

CONVOLUTIONS: Final = frozenset(f"conv{kind}{n}d" for kind in ("", "transpose") for n in (1, 2, 3))
MATMULS: Final = frozenset(("matmul", "mm", "bmm", "addmm"))
LAYERS: Final = CONVOLUTIONS | MATMULS | {"linear", "embedding"}
SUMS, PRODUCTS = frozenset(("add", "sub")), frozenset(("mul", "div"))
CHANNELWISE: Final = frozenset(("batchnorm", "instancenorm"))
NORMS: Final = CHANNELWISE | {"layernorm", "groupnorm", "rmsnorm"}

# The result is the same storage and every element of it, under every circumstance.
FULL_VIEWS: Final = frozenset(
    ("view", "transpose", "permute", "t", "squeeze", "unsqueeze", "unflatten", "alias", "identity",
     "viewas", "swapaxes", "movedim", "adjoint", "numpyt", "mt")
)  # fmt: skip
# The second argument gives a shape or a type, and no numbers.
SHAPED_LIKE: Final = frozenset(("expandas", "viewas", "reshapeas", "typeas", "to"))
# The result may share a part of the storage, or all of it.
VIEWS: Final = FULL_VIEWS | frozenset(
    ("reshape", "flatten", "contiguous", "to", "type", "float", "double", "half", "bfloat16",
     "slice", "select", "narrow", "chunk", "split", "splitwithsizes", "tensorsplit", "unbind",
     "getitem", "expand", "expandas", "reshapeas", "clone", "typeas", "diagonal")
)  # fmt: skip
_HOMOGENEOUS: Final = frozenset(
    ("relu", "leakyrelu", "rrelu", "prelu", "neg", "abs", "mean", "sum", "amax", "max", "pad",
     "interpolate", "upsample", "upsamplenearest2d", "upsamplebilinear2d", "pixelshuffle",
     "pixelunshuffle", "channelshuffle", "roll", "flip", "unfold", "fold", "repeat", "tile",
     "repeatinterleave", "dropout", "dropout1d", "dropout2d", "dropout3d", "featuredropout",
     "indexselect", "gather", "tril", "triu")
)  # fmt: skip
_POOLS: Final = frozenset(
    f"{kind}pool{n}d{suffix}"
    for kind in ("max", "avg", "adaptiveavg", "adaptivemax", "lp")
    for n in (1, 2, 3)
    for suffix in ("", "withindices")
)
_POINTWISE: Final = frozenset(
    ("gelu", "silu", "sigmoid", "tanh", "softmax", "logsoftmax", "softmin", "elu", "selu", "celu",
     "softplus", "softsign", "hardswish", "hardsigmoid", "hardtanh", "relu6", "mish", "logsigmoid",
     "clamp", "clip", "clampmin", "clampmax", "threshold", "hardshrink", "softshrink", "tanhshrink",
     "alphadropout", "featurealphadropout", "exp", "expm1", "log", "log1p", "sqrt", "square", "sin",
     "cos", "erf", "localresponsenorm", "pow", "where", "maskedfill", "nantonum")
)  # fmt: skip
CONSTANTS: Final = frozenset(
    ("zeroslike", "oneslike", "fulllike", "emptylike", "randlike", "randnlike", "newzeros",
     "newones", "newempty", "newfull", "newtensor", "bernoulli", "size", "shape", "dim", "argmax")
)  # fmt: skip


def canonical(name: str) -> str:
    """Return an operation's name as the tables spell it: ``relu`` for ``relu_`` and `ReLU`."""
    plain = name.lower().replace("_", "")
    return _SPELLINGS.get(plain, plain)


def unary_kind(operation: str) -> Kind | None:
    """Return what an operation with one data input is; None where the tables do not know it."""
    if operation in VIEWS:
        return "view"
    if operation in _HOMOGENEOUS or operation in _POOLS or operation.startswith("upsample"):
        return "homogeneous"
    return "pointwise" if operation in _POINTWISE else None
