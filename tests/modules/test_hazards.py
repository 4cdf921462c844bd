"""Networks that are easily miscounted: counted correctly, or refused with the name of the node."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from plain_networks import Net
from torch import nn
from torch.utils.checkpoint import checkpoint

from rebench.modules import UntraceableError, read_network
from rebench.modules import operations as ops

TRACERS = pytest.mark.parametrize("tracer", ["export", "fx"])
X = torch.zeros(2, 4)
IMAGES = torch.zeros(2, 4, 6, 6)


class Pair(Net):
    """Network of two inputs and an optional third one, which the tests omit."""

    def forward(self, x, y, mask=None):
        value = self.body(self, x, y)
        return self.last(value if mask is None else value * mask)


def _read(body, tracer=None, opaque="error", **modules):
    return read_network(Net(body, **modules), X, tracer=tracer, opaque=opaque)


def _sum_in_place(net, x):
    y = net.a(x)
    z = net.b(y)
    z += y  # every reader of z reads the sum
    z.add_(net.c(z))
    return z


def _skip_overwritten(net, x):
    y = net.a(x)
    kept = y
    y += net.b(torch.relu(y))  # the skip is overwritten, too
    return y + net.c(kept)


def _written_through_a_view(net, x):
    y = net.a(x)
    y.view(4, 2).add_(1).view(2, 4)
    y.unsqueeze(0).add_(net.b(x))
    return net.c(y)


def _relu_in_place(net, x):
    y = net.a(x)
    F.relu(y, inplace=True)
    return y + net.b(y)


def _copied_and_written(net, x):
    y = net.a(x)
    copied = y.clone()
    copied.add_(net.b(x))
    return y + copied  # y has its old value


def _added_up_in_place(net, x):
    total = x.new_zeros(x.shape)
    for layer in (net.a, net.b, net.c):
        total += layer(x)
    return total


COUNTED = {
    "in-place sums": (_sum_in_place, (0, 1, 2, 1)),  # t + t^2, times 1 + t
    "an overwritten skip": (_skip_overwritten, (0, 1, 2, 1)),
    "a write through a view": (_written_through_a_view, (0, 0, 2)),
    "an in-place ReLU": (_relu_in_place, (0, 1, 1)),
    "a reused layer": (lambda net, x: net.a(net.a(x) + net.b(x)), (0, 0, 2)),
    "a value twice": (lambda net, x: (y := net.a(x)) + y, (0, 2)),
    "a dead branch": (lambda net, x: (net.b(net.a(x)), net.c(x))[0], (0, 0, 1)),
    "a difference": (lambda net, x: net.a(x) - net.b(net.c(x)), (0, 1, 1)),
    "a product with zero": (lambda net, x: net.a(x) + 0.0 * net.b(net.c(x)), (0, 1)),
    "the input's skip": (lambda net, x: x + net.b(net.a(x)), (1, 0, 1)),
    "a sum that starts at 0": (lambda net, x: sum([net.a(x), net.b(x)]), (0, 2)),
    "halves": (lambda net, x: torch.cat([net.a(x)[:, :2], net.b(net.c(x))[:, 2:]], 1), (0, 1, 1)),
    "a row of parts": (
        lambda net, x: torch.cat([net.a(x)[:, :2], net.b(net.c(x))[:, 2:]], 1)[:1],
        (0, 1, 1),
    ),
    "a shape of data": (lambda net, x: net.a(x) + torch.ones(1).expand_as(net.b(x)), (0, 1)),
    "a mask from data": (lambda net, x: net.b((y := net.a(x)).masked_fill(y < 0, 0.0)), (0, 0, 1)),
    "a write into a copy": (_copied_and_written, (0, 3)),
    "a loop that adds up": (_added_up_in_place, (0, 3)),
    "a checkpoint": (lambda net, x: checkpoint(net.b, net.a(x), use_reentrant=False), (0, 0, 1)),
    "a weight as a matrix": (lambda net, x: net.a(x) @ net.b.weight.T, (0, 0, 1)),
}


@TRACERS
@pytest.mark.parametrize("name", COUNTED)
def test_paths_are_counted_right(name: str, tracer: str):
    body, expected = COUNTED[name]
    assert _read(body, tracer=tracer).graph.depth_polynomial() == expected


@TRACERS
def test_several_inputs_each_have_their_paths(tracer: str):
    pair = Pair(lambda net, x, y: net.a(x) + net.b(net.c(y)))
    network = read_network(pair, (X, X), tracer=tracer)
    assert network.graph.depth_polynomial() == (0, 1, 1)


def _use(network, name):
    return next(use for use in network.uses if use.weight.name == name)


def _degree(network, name, end=0):
    return (1, *network.graph.degrees)[_use(network, name).edge[end]]


# The same network, written with a composite operation and with sums and products.
SAME = {
    "the sum of a stack": (
        lambda net, x: torch.stack([net.a(x), net.b(net.c(x))]).sum(0) + net.d(x),
        lambda net, x: net.a(x) + net.b(net.c(x)) + net.d(x),
    ),
    "the mean of a stack": (
        lambda net, x: torch.stack([net.a(x), net.b(net.c(x))], dim=-1).mean(-1) + net.d(x),
        lambda net, x: (net.a(x) + net.b(net.c(x))) / 2 + net.d(x),
    ),
    "the other means of a stack": (
        lambda net, x: net.d(torch.stack([net.a(x), net.b(net.c(x))], dim=1).mean(0)),
        lambda net, x: net.d(torch.cat([net.a(x)[:, None], net.b(net.c(x))[:, None]], 1).mean(0)),
    ),
    "the means of a stack over two dimensions": (
        lambda net, x: torch.stack([net.a(x), net.b(net.c(x))], dim=1).mean((0, 1)) + net.d(x)[0],
        lambda net, x: (net.a(x) + net.b(net.c(x))).mean(0) / 2 + net.d(x)[0],
    ),
    "a flat stack": (
        lambda net, x: net.wide(torch.stack([net.a(x), net.b(net.c(x))], 1).flatten(1)),
        lambda net, x: net.wide(torch.cat([net.a(x), net.b(net.c(x))], 1)),
    ),
    "addcmul with a parameter": (
        lambda net, x: torch.addcmul(x, net.scale, net.a(x)),
        lambda net, x: x + net.scale * net.a(x),
    ),
    "addcmul with a gate and a factor": (
        lambda net, x: torch.addcmul(net.a(x), net.b(x).sigmoid(), net.c(net.d(x)), value=0.5),
        lambda net, x: net.a(x) + 0.5 * (net.b(x).sigmoid() * net.c(net.d(x))),
    ),
    "addcmul with a constant": (
        lambda net, x: torch.addcmul(net.scale, torch.ones(4), net.a(x)),
        lambda net, x: net.scale + net.a(x),
    ),
}


@TRACERS
@pytest.mark.parametrize("name", SAME)
def test_a_composite_operation_is_read_as_its_parts(name: str, tracer: str):
    composite, plain = (
        _read(body, tracer, wide=nn.Linear(8, 4), scale=nn.Parameter(torch.ones(4)))
        for body in SAME[name]
    )
    assert composite.graph.depth_polynomial() == plain.graph.depth_polynomial()
    assert composite.roles == plain.roles
    facts = ("role", "in_degree", "paths", "normalised")
    found, expected = (
        {use.weight.name: [getattr(use, fact) for fact in facts] for use in network.uses}
        for network in (composite, plain)
    )
    assert found == expected
    degrees = [_degree(network, "last.weight", end=1) for network in (composite, plain)]
    assert degrees[0] == degrees[1]


@TRACERS
def test_terms_that_only_one_sum_reads_are_counted_together(tracer: str):
    network = _read(lambda net, x: net.a(x) + net.b(x) + torch.relu(net.c(x)), tracer=tracer)
    assert [_degree(network, f"{name}.weight") for name in "abc"] == [3, 3, 3]
    # Here c also reads the inner sum y. So y is a vertex of its own and is not merged into the
    # outer sum: each has two terms.
    network = _read(lambda net, x: (y := net.a(x) + net.b(x)) + net.c(y), tracer=tracer)
    assert [_degree(network, f"{name}.weight") for name in "abc"] == [2, 2, 2]
    assert _degree(network, "c.weight", end=1) == 2


@TRACERS
def test_a_dead_branch_counts_in_no_degree(tracer: str):
    def body(net, x):
        y = net.a(x)
        _ = y + net.c(x)
        return y + net.b(x)

    network = _read(body, tracer=tracer)
    assert _degree(network, "a.weight") == 2
    assert {use.weight.name for use in network.uses} == {"a.weight", "b.weight", "last.weight"}


@TRACERS
def test_a_concatenation_adds_paths_and_no_degree(tracer: str):
    network = _read(
        lambda net, x: net.wide(torch.cat([net.a(x), net.b(net.c(x))], dim=-1)),
        tracer=tracer,
        wide=nn.Linear(8, 4),
    )
    assert network.graph.depth_polynomial() == (0, 0, 1, 1)
    assert _use(network, "wide.weight").weight.fan_in == 8  # the fan-in counts both parts
    assert [_degree(network, name, end=1) for name in ("wide.weight", "a.weight")] == [1, 1]
    assert _degree(network, "a.weight") == 1
    # The first four channels are a sum of three terms, the others one term: two on average.
    network = _read(
        lambda net, x: net.wide(torch.cat([net.a(x) + net.b(x) + x, net.c(x)], dim=-1)),
        tracer=tracer,
        wide=nn.Linear(8, 4),
    )
    assert _degree(network, "wide.weight", end=1) == 2


@TRACERS
@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (nn.Conv2d(4, 8, 3, padding=1), 36),
        (nn.Conv2d(4, 8, 3, padding=1, groups=2), 18),
        (nn.Conv2d(4, 4, 3, padding=1, groups=4), 9),
        (nn.ConvTranspose2d(4, 8, 2, stride=2), 4),  # each output sees one position of the kernel
        (nn.ConvTranspose2d(4, 8, 3, padding=1, groups=2), 18),
        (nn.ConvTranspose2d(4, 6, 4, padding=1, stride=2, groups=2), 8),
    ],
)
def test_fan_in_of_convolutions_counts_the_inputs_of_one_output(layer, fan_in: int, tracer: str):
    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.last = layer, nn.Conv2d(layer.out_channels, 2, 1)

        def forward(self, x):
            return self.last(self.layer(x))

    network = read_network(Images(), IMAGES, tracer=tracer)
    assert _use(network, "layer.weight").weight.fan_in == fan_in
    # Weights from N(0, 1 / fan_in) keep the variance of pixels that are not near the border.
    nn.init.normal_(layer.weight, std=fan_in**-0.5)
    outputs = torch.stack([layer(torch.randn(4, 4, 12, 12))[..., 3:-3, 3:-3] for _ in range(20)])
    assert outputs.std().item() == pytest.approx(1, rel=0.35)


@TRACERS
def test_fan_in_of_a_matrix_is_its_number_of_rows(tracer: str):
    bodies = (
        lambda net, x: x @ net.matrix,
        lambda net, x: torch.mm(x, net.matrix),
        lambda net, x: torch.addmm(net.shift, x, net.matrix),
    )
    for body in bodies:
        given = {"matrix": nn.Parameter(torch.ones(4, 12)), "shift": nn.Parameter(torch.ones(12))}
        network = _read(
            lambda net, x, body=body: net.wide(body(net, x)),
            tracer=tracer,
            wide=nn.Linear(12, 4),
            **given,
        )
        assert _use(network, "matrix").weight.fan_in == 4


REFUSED = {
    "a quotient": (lambda net, x: 1 / net.a(x), "div|reciprocal"),
    "a detached value": (lambda net, x: net.a(x) + net.b(x).detach(), "detach"),
    "a part of a stack": (lambda net, x: torch.stack([net.a(x), net.b(x)])[0], "select"),
    "the largest of a stack": (lambda net, x: torch.stack([net.a(x), net.b(x)]).amax(0), "amax"),
    "activations that are added": (
        lambda net, x: torch.stack([net.a(x), net.b(x)]).relu().sum(0), "sum"
    ),
    "a stack with a constant": (lambda net, x: torch.stack([net.a(x), 0 * x + 1]).sum(0), "sum"),
    "addcmul without a gate": (
        lambda net, x: torch.addcmul(net.a(x), net.b(x), net.c(x)), "addcmul_product"
    ),
    "a part of parts": (lambda net, x: torch.cat([net.a(x), net.b(x)], 1)[:, 2:6], "slice"),
    "a term times 0": (lambda net, x: torch.add(net.a(x), net.b(x), alpha=0), "add"),
    "a computed weight": (lambda net, x: F.linear(x, net.a.weight * net.b.weight), "computed from"),
}  # fmt: skip


@TRACERS
@pytest.mark.parametrize("name", REFUSED)
def test_unknown_nodes_are_named_and_refused(name: str, tracer: str):
    body, node = REFUSED[name]
    with pytest.raises(UntraceableError, match=f"node '.*{node}|{node}"):
        _read(body, tracer=tracer)


@TRACERS
def test_a_branch_without_gradients_is_refused(tracer: str):
    def body(net, x):
        with torch.no_grad():
            fixed = net.b(x)
        return net.a(x) + fixed

    with pytest.raises(UntraceableError, match=f"torch.{tracer}: .*(another program|gradients)"):
        _read(body, tracer=tracer)


def test_autocast_is_read_by_fx():
    def body(net, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net.b(net.a(x)).float()

    network = _read(body)
    assert network.tracer == "fx"
    assert network.graph.depth_polynomial() == (0, 0, 1)


def test_a_long_sum_is_one_sum():
    network = _read(lambda net, x: sum([net.a(x), *([x] * 600)]), tracer="fx")
    assert network.graph.depth_polynomial() == (600, 1)
    assert _degree(network, "a.weight") == 601


def test_tables_name_operations_that_exist():
    layers = ops.SUMS.union(ops.PRODUCTS, ops.LAYERS, ops.NORMS)
    for name in layers.union(ops.KINDS, ops.CONSTANTS) - {"getitem"}:
        assert hasattr(torch.ops.aten, name), name


@TRACERS
def test_a_part_that_is_written_in_place_is_refused_where_the_whole_is_read(tracer: str):
    def body(net, x):
        y = net.a(x)
        y[:, :2] += net.b(x)[:, :2]
        return y

    with pytest.raises(UntraceableError, match="in place"):
        _read(body, tracer=tracer)


@TRACERS
def test_given_paths_are_used(tracer: str):
    def body(net, x):
        return net.a(x) * torch.sigmoid(net.b(net.c(x)))

    network = _read(body, tracer=tracer, opaque={"mul": [(1,), ()]})
    assert network.graph.depth_polynomial() == (0, 1)
    network = _read(body, tracer=tracer, opaque={"mul": [(1, 1), (0, 2)]})
    assert network.graph.depth_polynomial() == (0, 1, 1, 2)
    with pytest.raises(UntraceableError, match="must give 2 polynomials"):
        _read(body, tracer=tracer, opaque={"mul": [(1,)]})


class Outer(nn.Module):
    """Network that calls an inner module, such as `Product`, before its last layer."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.last = inner, nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.inner(x))


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x) * self.b(x)


def test_a_call_is_named_by_the_innermost_module_that_makes_it():
    network = Outer(nn.Sequential(Product()))
    with pytest.raises(UntraceableError) as refused:
        read_network(network, X, tracer="export")
    assert "through node 'mul' (mul) in module 'inner.0' are not known" in str(refused.value)
    given = read_network(network, X, tracer="export", opaque={"inner.0": [(1,), (0, 2)]})
    assert given.graph.depth_polynomial() == (0, 1, 2)
    with pytest.raises(UntraceableError):
        read_network(network, X, tracer="export", opaque={"inner": [(1,), (0, 2)]})
    # The other tracer knows no modules.
    with pytest.raises(UntraceableError) as refused:
        read_network(network, X, tracer="fx")
    assert "through node 'mul' (mul) are not known" in str(refused.value)


def test_a_network_that_export_cannot_read_is_read_by_fx():
    class Untraced(Net):
        def forward(self, x):
            torch._dynamo.graph_break() if torch.compiler.is_exporting() else None
            if torch.compiler.is_exporting():
                raise RuntimeError("not under export")
            return super().forward(x)

    network = read_network(Untraced(lambda net, x: net.b(net.a(x))), X)
    assert network.tracer == "fx"
    assert network.graph.depth_polynomial() == (0, 0, 1)


def test_a_graph_that_no_tracer_reads_is_refused_with_both_reasons():
    class Hidden(nn.Module):
        def forward(self, x):
            return x if float(x.sum()) > 0 else -x

    with pytest.raises(UntraceableError, match=r"Hidden cannot be read; torch.export: .*torch.fx"):
        read_network(Hidden(), X)


def test_an_output_without_data_is_refused():
    with pytest.raises(UntraceableError, match="no path leads"):
        _read(lambda net, x: net.a(torch.zeros_like(x)))
