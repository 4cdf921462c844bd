"""Gates: no path leads through a gate, but its weights are layers."""

import re

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from plain_networks import Former, Net
from torch import nn

import rebench
from rebench.modules import UntraceableError, read_network

TRACERS = pytest.mark.parametrize("tracer", ["export", "fx"])
WRITTEN = pytest.mark.parametrize("written", [True, False], ids=["written", "torch's"])
WORDS, X = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 5, 4)


def _read(body, tracer=None, opaque="error", **modules):
    return read_network(Net(body, **modules), X, tracer=tracer, opaque=opaque)


def _uses(network):
    return {use.weight.name.removesuffix(".weight"): use for use in network.uses}


@TRACERS
@WRITTEN
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "separate"])
def test_queries_and_keys_are_hidden_weights(packed: bool, written: bool, tracer: str):
    network = read_network(Former(packed=packed, written=written), WORDS, tracer=tracer)
    # A path has the embedding, and in each of two blocks: v and out, or an identity; then two
    # layers, or an identity.
    assert network.graph.depth_polynomial() == (0, 1, 0, 4, 0, 6, 0, 4, 0, 1)
    uses = _uses(network)
    names = ("qkv", "out") if packed else ("q", "k", "v", "out")
    roles = {name: uses[f"attention.0.{name}"].role for name in names}
    assert roles == dict.fromkeys(names, "hidden")
    paths = {name: uses[f"attention.0.{name}"].paths for name in names}
    assert paths == {name: 0 if name in ("q", "k") else 8 for name in names}
    assert not any(use.normalised for use in uses.values())


ENTRY = {"scaled_dot_product_attention": [(), (), (1,)]}


@pytest.mark.parametrize("rule", [
    "topology", "topology(degree=target-live)", "exact", "paths", "nb201", "fixed(init=he)", "mup",
])  # fmt: skip
def test_packed_and_separate_projections_get_the_same_plan(rule: str):
    options = {"rule": rule, "base_lr": None if rule == "nb201" else 0.2}
    plans = {}
    for packed, opaque in ((True, "error"), (False, "error"), (False, ENTRY)):
        base = rebench.plan(Former(4, packed=packed), WORDS, opaque=opaque, **options)
        model = Former(packed=packed)
        plan = rebench.plan(model, WORDS, base=base, opaque=opaque, **options)
        facts = ("role", "learning_rate", "std", "distribution", "fan_in", "in_degree")
        plans[packed, str(opaque)] = {
            row.name: [getattr(row, fact) for fact in facts] for row in plan.parameters
        }
    one, two, by_hand = plans.values()
    assert two == by_hand
    for name, facts in two.items():
        assert facts == one[re.sub(r"\.[qkv]\.", ".qkv.", name)], name


def test_init_draws_queries_and_keys_as_values():
    network = Former(64)
    plan = rebench.plan(network, WORDS, rule="fixed(init=he)")
    for name in "qkv":
        nn.init.zeros_(network.attention[0].get_submodule(name).weight)
    plan.init_(network, torch.Generator().manual_seed(0))
    for name in ("q", "k", "v", "out"):
        weight = network.attention[0].get_submodule(name).weight
        assert weight.std().item() == pytest.approx((2 / 64) ** 0.5, rel=0.1)
    named = {row.name: row for row in plan.parameters}
    assert "makes a gate" in named["attention.0.q.weight"].why
    assert "makes a gate" not in named["attention.0.v.weight"].why


def _multihead(weights):
    return lambda net, x: net.heads(x, x, x, need_weights=weights)[0]


def _pooled(net, x):
    query = net.query.expand(2, -1, -1)  # the projection of a learned query reads no data
    return net.heads(query, x, x, need_weights=False)[0]


@TRACERS
@pytest.mark.parametrize("body", [_multihead(True), _multihead(False), _pooled])
def test_attention_of_torch_is_read(body, tracer: str):
    heads = nn.MultiheadAttention(4, 2, batch_first=True)
    query = nn.Parameter(torch.ones(1, 1, 4))
    network = _read(lambda net, x: body(net, net.a(x)), tracer, heads=heads, query=query)
    assert network.graph.depth_polynomial() == (0, 0, 0, 1)
    packed = [use for use in network.uses if use.weight.name == "heads.in_proj_weight"]
    assert {use.role for use in packed} == {"hidden"}
    assert sum(use.paths for use in packed) == 1


@TRACERS
def test_keys_of_other_sizes_have_separate_projections(tracer: str):
    heads = nn.MultiheadAttention(4, 2, kdim=3, vdim=3, batch_first=True)

    def body(net, x):
        other = net.e(x)
        return net.heads(net.a(x), other, other, need_weights=False)[0]

    network = _read(body, tracer, heads=heads, e=nn.Linear(4, 3))
    assert network.graph.depth_polynomial() == (0, 0, 0, 1)  # e, v and out
    uses = {name: use.paths for name, use in _uses(network).items() if name != "last"}
    assert uses == {
        "a": 0, "e": 1, "heads.q_proj_weight": 0, "heads.k_proj_weight": 0,
        "heads.v_proj_weight": 1, "heads.out_proj": 1,
    }  # fmt: skip


def _squeezed(net, x):
    y = net.a(x)
    return y * torch.sigmoid(net.c(torch.relu(net.b(y.mean(1, keepdim=True)))))


def _turned(net, x):
    """Return attention with rotary positions: halves of queries and keys are swapped and joined."""
    y = net.a(x)

    def turn(z):
        return z * angles.cos() + torch.cat([-z[..., 2:], z[..., :2]], -1) * angles.sin()

    angles = torch.arange(5.0)[:, None]
    return F.scaled_dot_product_attention(turn(net.b(y)), turn(net.c(y)), net.d(y))


def _gelu(z):
    return 0.5 * z * (1 + torch.tanh(0.8 * (z + 0.04 * torch.pow(z, 3))))


def _softmax(scores):
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


READ = {
    "a sigmoid": (lambda net, x: net.a(x) * torch.sigmoid(net.b(net.c(x))), (0, 1)),
    "a softmax": (lambda net, x: net.b(net.a(x)) * net.c(x).softmax(-1), (0, 0, 1)),
    "softmax by hand": (lambda net, x: _softmax(net.a(x) @ net.b(x).mT) @ net.c(x), (0, 1)),
    "both": (lambda net, x: torch.sigmoid(net.a(x)) * torch.tanh(net.b(net.c(x))), (0, 0, 1)),
    "what is left": (lambda net, x: (1 - net.a(x).sigmoid()) * net.b(net.c(x)), (0, 0, 1)),
    "squeeze and excitation": (_squeezed, (0, 1)),
    "a quotient": (lambda net, x: net.a(x) / torch.sigmoid(net.b(net.c(x))), (0, 1)),
    "einsum": (
        lambda net, x: torch.einsum("bij,bjk->bik", (net.a(x) @ x.mT).softmax(-1), net.b(x)),
        (0, 1),
    ),
    "positions that turn": (_turned, (0, 0, 1)),
    "an unknown gate": (lambda net, x: net.a(x) * net.b(x).cumsum(1).sigmoid(), (0, 1)),
    # One layer leads to either factor.
    "SwiGLU": (lambda net, x: net.c(F.silu(net.a(x)) * net.b(x)), (0, 0, 1)),
    "packed SwiGLU": (
        lambda net, x: net.a((z := net.wide(x))[..., :4].relu() * z[..., 4:]),
        (0, 0, 1),
    ),
    "GLU": (lambda net, x: net.a(F.glu(net.wide(x))), (0, 0, 1)),
    "GELU by hand": (lambda net, x: _gelu(net.a(x)), (0, 1)),
    "GEGLU by hand": (lambda net, x: _gelu(net.a(x)) * net.b(x), (0, 1)),
    "SiLU by hand": (lambda net, x: (y := net.a(x)) * torch.sigmoid(y), (0, 1)),
    "a square": (lambda net, x: (y := net.a(x)) * y, (0, 1)),
    "a value and its mean": (lambda net, x: (y := net.a(x)) * y.mean(), (0, 1)),
}


@TRACERS
@pytest.mark.parametrize("name", READ)
def test_paths_lead_through_the_gated_value(name: str, tracer: str):
    body, expected = READ[name]
    network = _read(body, tracer, wide=nn.Linear(4, 8))
    assert network.graph.depth_polynomial() == expected


def _talking(net, x):
    """Return attention with talking heads: two layers mix the heads, around softmax."""
    q, k, v = (layer(x).unflatten(-1, (2, 2)).transpose(1, 2) for layer in (net.a, net.b, net.c))
    scores = net.before((q @ k.mT).permute(0, 2, 3, 1)).softmax(-2)
    mixed = net.after(scores).permute(0, 3, 1, 2) @ v
    return net.d(mixed.transpose(1, 2).flatten(2))


@TRACERS
def test_layers_that_mix_the_heads_of_attention_make_a_gate(tracer: str):
    network = _read(_talking, tracer, before=nn.Linear(2, 2), after=nn.Linear(2, 2))
    assert network.graph.depth_polynomial() == (0, 0, 1)  # values, then d
    uses = _uses(network)
    assert {name: use.paths for name, use in uses.items()} == {
        "a": 0, "b": 0, "before": 0, "after": 0, "c": 1, "d": 1, "last": 1,
    }  # fmt: skip
    assert uses["after"].role == "hidden"


@TRACERS
def test_gate_of_gmlp_is_read_with_the_paths_that_its_error_suggests(tracer: str):
    """Read a gMLP block, whose gate has no activation: its init decides which factor it is."""

    def body(net, x):
        value, gate = F.gelu(net.wide(x)).chunk(2, -1)
        return x + net.a(value * net.spatial(net.norm(gate).mT).mT)

    modules = {"wide": nn.Linear(4, 8), "norm": nn.LayerNorm(4), "spatial": nn.Linear(5, 5)}
    with pytest.raises(UntraceableError, match=r"node 'mul' \(mul\).*") as refused:
        _read(body, tracer, **modules)
    assert str(refused.value).endswith(
        "such as opaque={'mul': [(1,), ()]} if the second value is a gate of the first"
    )
    network = _read(body, tracer, opaque={"mul": [(1,), ()]}, **modules)
    assert network.graph.depth_polynomial() == (1, 0, 1)
    assert _uses(network)["spatial"].paths == 0


REFUSED = {
    "two layers": (lambda net, x: net.a(x) * net.b(x), "mul"),
    "two gates": (lambda net, x: net.a(x).sigmoid() * net.b(x).softmax(-1), "mul"),
    "an activation behind more layers": (lambda net, x: net.a(x) * net.b(net.c(x)).tanh(), "mul"),
    "activations of both": (lambda net, x: F.silu(net.a(x)) * net.b(x).tanh(), "mul"),
    "a gate that is divided": (lambda net, x: net.a(x).sigmoid() / net.b(x), "div"),
    "scores without softmax": (lambda net, x: net.a(x) @ net.b(x).mT @ net.c(x), "matmul"),
    "a layer behind sigmoid": (lambda net, x: net.a(net.b(x).sigmoid()).mT @ net.c(x), "matmul"),
    "two layers behind softmax": (
        lambda net, x: net.a(net.b(net.c(x).softmax(-1))).mT @ net.d(x), "matmul"
    ),
    "a product with a layer behind softmax": (
        lambda net, x: net.a(net.b(x).softmax(-1)) * net.c(x), "mul"
    ),
    "a learned value": (
        lambda net, x: F.scaled_dot_product_attention(net.a(x), net.b(x), net.fixed), "scaled_dot"
    ),
    "a part of parts that are gated": (
        lambda net, x: F.glu(torch.cat([net.a(x), net.b(net.c(x))], -1)), "glu"
    ),
}  # fmt: skip


@TRACERS
@pytest.mark.parametrize("name", REFUSED)
def test_a_product_that_has_no_gate_is_refused(name: str, tracer: str):
    body, node = REFUSED[name]
    with pytest.raises(UntraceableError, match=f"node '{node}.* are not known"):
        _read(body, tracer, fixed=nn.Parameter(torch.ones(2, 5, 4)))


def test_paths_that_are_given_replace_those_of_a_gate():
    attention = {"scaled_dot_product_attention": [(1,), (), (1,)]}
    network = _read(
        lambda net, x: F.scaled_dot_product_attention(*[net.a(x)] * 3), opaque=attention
    )
    assert network.graph.depth_polynomial() == (0, 2)


def test_a_layer_in_a_gate_is_never_the_readout_and_changes_no_depth():
    class Gated(Net):
        def forward(self, x):
            y = self.last(self.a(x))
            return y * torch.sigmoid(self.e(y + self.e(y)))

    network = read_network(Gated(None, e=nn.Linear(2, 2)), X)
    roles = {(use.weight.name, use.role) for use in network.uses}
    assert roles == {("a.weight", "stem"), ("e.weight", "hidden"), ("last.weight", "readout")}
    assert network.graph.depth_polynomial() == (0, 1)
    assert [use.in_degree for use in network.uses] == [1, 1, 2, 1]
    assert [use.paths for use in network.uses] == [1, 1, 0, 0]


class Learned(Net):
    """Network that also returns a scale, a layer's output for a learned query, and a weight."""

    def forward(self, x):
        return super().forward(x), self.scale.exp(), self.e(self.query), self.a.weight


def test_check_shows_how_far_queries_and_keys_move():
    generator = torch.Generator().manual_seed(0)
    batch = torch.randint(11, (4, 6), generator=generator), torch.arange(4) % 3
    network = Former()
    frame = rebench.plan(network, batch[0], base_lr=0.1).check(network, batch)
    moved = frame.set_index("parameter")["movement"]
    assert (moved[[f"attention.0.{name}.weight" for name in "qkv"]] > 0).all()


@TRACERS
def test_weights_are_unused_only_where_no_gradient_comes(tracer: str):
    def body(net, x):
        _ = net.d(x)
        return net.a(x) * torch.sigmoid(net.b(x)) * torch.sigmoid(net.c(x).detach())

    learned = {"scale": nn.Parameter(torch.ones(())), "query": nn.Parameter(torch.ones(4))}
    model = Learned(body, **learned, e=nn.Linear(4, 4))
    sum(output.square().sum() for output in model(torch.randn(2, 5, 4))).backward()
    moved = {name for name, weight in model.named_parameters() if weight.grad is not None}
    network = read_network(model, X, tracer=tracer)
    assert {use.weight.name for use in network.uses} | set(network.roles) == moved
    assert {name for name, _ in model.named_parameters()} - moved == {"c.weight", "d.weight"}
