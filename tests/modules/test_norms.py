"""Normalisations that are written as arithmetic, and arithmetic that only looks like one."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import rebench
from rebench.modules import UntraceableError, read_network

TRACERS = pytest.mark.parametrize("tracer", ["export", "fx"])
EPS = 1e-6
X = torch.zeros(2, 5, 4)


class Net(nn.Module):
    """Two layers and a readout, in a row; a norm is located between the two layers."""

    def __init__(self, norm, *, bias=False):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=bias), nn.Linear(4, 4, bias=False)
        self.gain, self.shift = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.readout = nn.Linear(4, 2)
        self.norm = norm

    def forward(self, x):
        return self.readout(torch.relu(self.second(self.norm(self, self.first(x)))))


def _llama(net, x):
    dtype, x = x.dtype, x.to(torch.float32)
    variance = x.pow(2).mean(-1, keepdim=True)
    return net.gain * (x * torch.rsqrt(variance + EPS)).to(dtype)


def _centred(net, x):
    x = x - x.mean(-1, keepdim=True)
    return net.gain * (x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + EPS)) + net.shift


def _annotated(net, x):
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return net.gain * (x - mean) / (std + EPS) + net.shift


def _moments(net, x):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean**2
    return (x - mean) * (variance + EPS) ** -0.5


def _gain_first(net, x):
    return x * (net.gain / torch.sqrt((x**2).mean(-1, keepdim=True) + EPS))


NORMS = {
    "Llama": _llama,
    "T5": lambda net, x: net.gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)),
    "a quotient": lambda _, x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS),
    "a reciprocal": lambda _, x: x * (1 / (x.square().mean(-1, keepdim=True) + EPS).sqrt()),
    "a power": lambda _, x: x * (x.pow(2).sum(-1, keepdim=True) + EPS).pow(-0.5),
    "a sum over a count": lambda _, x: x * torch.rsqrt(x.pow(2).sum(-1, True) / 4 + EPS),
    "F.normalize": lambda _, x: F.normalize(x, dim=-1),
    "a norm": lambda _, x: x / x.norm(dim=-1, keepdim=True).clamp_min(EPS),
    "the largest": lambda _, x: x / x.abs().amax(-1, keepdim=True).clamp(min=EPS),
    "centred": _centred,
    "annotated transformer": _annotated,
    "moments": _moments,
    "variance": lambda _, x: (x - x.mean(-1, True)) * torch.rsqrt(x.var(-1, keepdim=True) + EPS),
    "gain first": _gain_first,
    "of a mean": lambda _, x: F.normalize(x.mean(1, keepdim=True), dim=-1),
    "of ReLUs": lambda _, x: (y := x.relu()) * torch.rsqrt(y.pow(2).mean(-1, True) + EPS),
}


@TRACERS
@pytest.mark.parametrize("name", NORMS)
def test_a_written_norm_has_one_path_and_makes_weights_before_it_scale_invariant(name, tracer):
    network = read_network(Net(NORMS[name]), X, tracer=tracer)
    assert network.graph.depth_polynomial() == (0, 0, 1)
    settled = {use.weight.name: use.normalised for use in network.uses}
    assert settled == {"first.weight": True, "second.weight": False, "readout.weight": False}
    # A bias before a normalisation that is not over the batch changes the output, so the weight
    # is not scale-invariant.
    biased = read_network(Net(NORMS[name], bias=True), X, tracer=tracer)
    assert not any(use.normalised for use in biased.uses)


OTHERS = {
    # x / (1 + |x|) squashes; the constant is no epsilon.
    "a squash": (lambda _, x: x / (1 + x.norm(dim=-1, keepdim=True)), None),
    "softsign": (lambda _, x: x / (1 + x.abs()), None),
    "its own size": (lambda _, x: x * torch.rsqrt(1 + x * x), None),
    "another's size": (lambda net, x: x / net.second(x).std(-1, keepdim=True), None),
    "its mean over it": (lambda _, x: x.mean(-1, keepdim=True) / x, None),
    "the square of it": (lambda _, x: x / x.pow(2).mean(-1, keepdim=True), (0, 0, 1)),
    "times its size": (lambda _, x: x * x.std(-1, keepdim=True), (0, 0, 1)),
    "a sum of it and its mean": (lambda _, x: F.normalize(x + x.mean(-1, True), dim=-1), (0, 0, 2)),
    # A difference is no norm, but a sum of two terms.
    "centred alone": (lambda _, x: x - x.mean(-1, keepdim=True), (0, 0, 2)),
}


@TRACERS
@pytest.mark.parametrize("name", OTHERS)
def test_other_arithmetic_is_counted_as_before_or_refused(name: str, tracer: str):
    body, expected = OTHERS[name]
    if expected is None:
        with pytest.raises(UntraceableError, match="are not known"):
            read_network(Net(body), X, tracer=tracer)
        return
    network = read_network(Net(body), X, tracer=tracer)
    assert network.graph.depth_polynomial() == expected
    assert not any(use.normalised for use in network.uses)


@TRACERS
def test_a_norm_hands_on_the_in_degree_of_a_sum(tracer: str):
    class Post(Net):
        def forward(self, x):
            return self.readout(x + self.norm(self, self.first(x)))

    (first, _) = read_network(Post(NORMS["T5"]), X, tracer=tracer).uses
    assert (first.in_degree, first.normalised) == (2, True)


@TRACERS
def test_entries_for_parts_of_a_norm_change_nothing(tracer: str):
    entries = {"rsqrt": [(1,)], "mul": [(1,), ()], "mul_1": [(), ()]}
    given = read_network(Net(NORMS["T5"]), X, tracer=tracer, opaque=entries)
    alone = read_network(Net(NORMS["T5"]), X, tracer=tracer)
    assert given.graph.depth_polynomial() == alone.graph.depth_polynomial()
    assert [use.normalised for use in given.uses] == [use.normalised for use in alone.uses]


def test_gain_and_shift_of_a_written_norm_are_reset():
    network = Net(NORMS["centred"])
    plan = rebench.plan(network, X)
    roles = {row.name: row.role for row in plan.parameters}
    assert (roles["gain"], roles["shift"]) == ("gain", "shift")
    nn.init.constant_(network.gain, 3)
    nn.init.constant_(network.shift, 3)
    plan.init_(network, torch.Generator().manual_seed(0))
    assert network.gain.eq(1).all()
    assert network.shift.eq(0).all()


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (lambda net, x: (1 + net.gain) * NORMS["a quotient"](net, x), (4,)),  # 0 at init: Gemma
        (lambda net, x: net.gain * NORMS["a quotient"](net, x), (1,)),  # one gain for all
        (lambda net, x: net.gain * NORMS["a quotient"](net, x), (5, 1)),  # one each position
        (lambda net, x: net.gain * torch.relu(NORMS["a quotient"](net, x)), (4,)),
    ],
)
def test_other_factors_behind_a_written_norm_are_kept(norm, shape):
    network = Net(norm)
    network.gain = nn.Parameter(torch.full(shape, 3.0))
    plan = rebench.plan(network, X)
    assert {row.name: row.role for row in plan.parameters}["gain"] in ("factor", "offset")
    plan.init_(network, torch.Generator().manual_seed(0))
    assert network.gain.eq(3).all()
