"""Plans: rates, init, one step, JSON, compiled modules."""

import copy
import dataclasses
import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from plain_networks import IMAGES, DenseNet, Former, ResNet, UNet
from torch import nn

import rebench
from cells import DagCode
from experiments.laws.dagnet import DagMLP
from experiments.laws.graphs import chain, random_graphs
from rebench.errors import InputError, UnknownNameError
from rebench.modules import Plan
from rebench.recipes import HyperParameters, Recipe, base_of, require_path
from rebench.recipes.recursion import Graphs, degree_gains, exact_update


def mlp(width=8, depth=3, inputs=6, bias=True):
    sizes = [inputs] + [width] * depth
    layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 3, bias=bias))


X = torch.zeros(2, 6)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(plan):
    return {row.name: row for row in plan.parameters}


@pytest.mark.parametrize("depth", [2, 5])
def test_topology_scales_the_rate_by_the_cubed_depths_of_all_paths(depth: int):
    plan = rebench.plan(mlp(depth=depth), X, base=mlp(depth=1), base_lr=0.2)
    assert plan.learning_rate == pytest.approx(0.2 * depth**-1.5)
    # By hand: 1, 3, 3 and 1 paths have 1, 2, 3 and 4 layers; the base has one path with one layer.
    # The rate is divided by the root of the sum over paths of their cubed numbers of layers.
    dense = rebench.plan(DenseNet(), IMAGES, base_lr=0.2, base=DenseNet(layers=0))
    assert dense.learning_rate == pytest.approx(0.2 / math.sqrt(1 + 3 * 8 + 3 * 27 + 64))


def test_the_default_base_is_the_network_itself():
    plan = rebench.plan(mlp(), X, base_lr=0.3)
    assert plan.learning_rate == pytest.approx(0.3)
    assert rebench.plan(mlp(), X, rule="topology(base_lr=0.7)").learning_rate == pytest.approx(0.7)


@pytest.mark.parametrize(("rule", "rate"), [
    ("topology-lr", 0.1 * (27 / 1) ** -0.5),
    ("topology-init", 0.1),
    ("fixed(init=he)", 0.1),
    ("paths", 0.1),
    ("exact", 0.1 * (1 / 19) ** 0.5),  # L (2 L^2 + 1) / 6 is 1/2 of one layer, 19/2 of three
])  # fmt: skip
def test_every_rule_that_takes_a_graph_takes_a_module_s(rule: str, rate: float):
    plan = rebench.plan(mlp(depth=3), X, rule=rule, base=mlp(depth=1), base_lr=0.1)
    assert plan.learning_rate == pytest.approx(rate)


@pytest.mark.parametrize(("network", "options", "error", "message"), [
    (mlp(), {"rule": "fsc"}, InputError, "fsc"),
    (mlp(), {"rule": "am-mup"}, InputError, "takes cells and graph codes"),
    (mlp(), {"rule": "nb201", "base_lr": 0.3}, InputError, "leave base_lr out"),
    (nn.Linear(6, 3), {}, InputError, "has only a readout layer"),
    (UNet(), {"rule": "exact"}, InputError, "concatenations"),
    (mlp(), {"rule": "topolgy"}, UnknownNameError, "topology"),
    (mlp(), {"rule": "one-step"}, InputError, "needs batch"),
    (mlp(), {"rule": "mup", "base": mlp(depth=2)}, InputError, "in width only; the base has"),
    (mlp(), {"optimizer": "adam", "base_lr": 0.1}, InputError, "for SGD only, .* use rule='mup'"),
    (mlp(), {"optimizer": "adam", "rule": "mup"}, InputError, "needs base_lr: .*base_lr=0.001"),
    (mlp(), {"optimizer": "adamw"}, InputError, r"'adam' \(also for AdamW\), got 'adamw'"),
])  # fmt: skip
def test_rules_that_cannot_answer_say_so(network, options, error, message: str):
    with pytest.raises(error, match=message):
        rebench.plan(network, IMAGES if isinstance(network, UNet) else X, **options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerPath(Recipe):
    """Rate divided by the number of paths, relative to the base or not; registered below."""

    name: ClassVar[str] = "per-path"
    summary: ClassVar[str] = "the rate over the number of paths"
    paper: ClassVar[str] = "none"

    base_lr: float = 0.1
    relative: bool = False

    def hyperparameters(self, cell):
        paths = sum(require_path(self.name, cell))
        if self.relative:
            paths /= sum(require_path(self.name, base_of(cell)))
        factors = {"stem.weight": 3.0}
        return HyperParameters(learning_rate=self.base_lr / paths, layer_multipliers=factors)


@pytest.fixture
def _per_path(monkeypatch):
    found = rebench.recipes.base._found() | {"per-path": {"here": PerPath}}
    monkeypatch.setattr(rebench.recipes.base, "_found", lambda: found)


@pytest.mark.usefixtures("_per_path")
def test_an_own_rule_that_ignores_the_base_is_refused():
    network, base = DenseNet(layers=4), DenseNet(layers=1)  # 16 and 2 paths
    with pytest.raises(InputError, match=r"'per-path.*' does not use base: .* 0\.00625 .*base_of"):
        rebench.plan(network, IMAGES, rule="per-path", base=base)
    alone = rebench.plan(network, IMAGES, rule="per-path")
    assert alone.learning_rate == pytest.approx(0.1 / 16)
    relative = rebench.plan(network, IMAGES, rule="per-path(relative=true)", base=base)
    assert relative.learning_rate == pytest.approx(0.1 / 8)
    rates = {name: row.learning_rate for name, row in rows(relative).items()}
    assert rates["stem.weight"] == pytest.approx(0.3 / 8)
    assert rates["readout.weight"] == relative.learning_rate
    # A rule with the same rate for all networks has a base for `check`.
    assert rebench.plan(network, IMAGES, rule="nb201", base=base).base is not None


def _law(code):
    """Return the largest rate of a graph with a trained stem, by the recursion over its code."""
    graphs = Graphs.of([code])
    return exact_update(graphs, degree_gains(graphs, "target")).learning_rate[0]


def test_exact_is_the_law_of_graph_networks():
    rng = np.random.default_rng(0)
    base = rebench.plan(DagMLP(chain(1), inputs=6, width=4), X, rule="exact", base_lr=0.1)
    for code in [DagCode.parse("2_22_222"), *random_graphs(4, 5, rng)]:
        network = DagMLP(code, inputs=6, width=4)
        plan = rebench.plan(network, X, rule="exact", base=base, base_lr=0.1)
        assert plan.learning_rate == pytest.approx(0.1 * _law(code) / _law(chain(1)))
    # The closed form of a chain; the stem is one of its layers.
    plan = rebench.plan(
        DagMLP(chain(4), inputs=6, width=4), X, rule="exact", base=base, base_lr=0.1
    )
    squared = [depth * (2 * depth**2 + 1) / 6 for depth in (2, 5)]
    assert plan.learning_rate == pytest.approx(0.1 * math.sqrt(squared[0] / squared[1]))


def test_one_step_moves_all_graphs_as_far_as_the_base():
    """At the rates of `exact`, one step moves deep and branched graphs as far as the base.

    The test draws networks in the law's setting: one data point, residual 1, a readout of order
    1 / n, and a large width n.
    """
    width, draws = 256, 60
    data = torch.randn(1, width, generator=generator())
    data *= width**0.5 / data.norm()
    codes = {"base": chain(1), "deep": chain(3), "branched": DagCode.parse("2_22_222")}
    base = rebench.plan(
        DagMLP(codes["base"], inputs=width, width=width), data, rule="exact", base_lr=1e-3
    )
    moved = {}
    for name, code in codes.items():
        network = DagMLP(code, inputs=width, width=width, classes=1)
        plan = rebench.plan(network, data, rule="exact", base=base, base_lr=1e-3)
        total = 0.0
        for seed in range(draws):
            plan.init_(network, generator(seed))
            nn.init.normal_(network.readout.weight, std=1 / width, generator=generator(seed))
            total += _moved(network, plan.learning_rate, data)
        moved[name] = total / draws
    for name in ("deep", "branched"):
        assert moved[name] / moved["base"] == pytest.approx(1, abs=0.25)


def _moved(network, rate, data):
    """Return the squared change of the output vertex per unit, to first order in the rate."""
    copied = copy.deepcopy(network).double()
    data, last = data.double(), copied.code.n_vertices - 1
    before = copied.vertices(data)[last].detach()
    gradients = torch.autograd.grad(copied(data).sum(), [*copied.parameters()])
    step = 1e-3 * rate
    with torch.no_grad():
        for parameter, gradient in zip(copied.parameters(), gradients, strict=True):
            parameter.sub_(gradient, alpha=step)
        change = copied.vertices(data)[last] - before
    return float(change.square().mean()) / 1e-6


def test_check_shows_the_movement_of_each_layer_and_of_the_base():
    batch = (torch.randn(8, 6, generator=generator()), torch.arange(8) % 3)
    network, base = mlp(depth=3), mlp(depth=2)
    plan = rebench.plan(network, X, base=base, base_lr=0.1, rule="fixed")
    before = copy.deepcopy(network.state_dict())
    frame = plan.check(network, batch)
    assert list(frame["parameter"]) == ["0.weight", "2.weight", "4.weight", "6.weight"]
    assert list(frame["role"]) == ["stem", "hidden", "hidden", "readout"]
    assert frame["base"].notna().tolist() == [True, True, False, False]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    # By hand: take one step of SGD, and measure the change of the first layer's output.
    stepped = copy.deepcopy(network).double()
    x = batch[0].double()
    here = stepped[0](x).detach()
    F.cross_entropy(stepped(x), batch[1]).backward()
    torch.optim.SGD(stepped.parameters(), lr=0.1).step()
    moved = (stepped[0](x) - here).square().mean() / here.square().mean()
    assert frame["movement"][0] == pytest.approx(math.sqrt(moved.item()))
    # A plan from a file does not contain the base network, which can be given again.
    again = Plan.from_json(plan.to_json())
    assert again.check(network, batch)["base"].isna().all()
    assert again.check(network, batch, base=base).equals(frame)


def test_check_of_a_plan_for_adam_takes_its_first_step():
    batch = (torch.randn(8, 6, generator=generator()), torch.arange(8) % 3)
    network, options = mlp(), {"rule": "mup", "base_lr": 1e-3, "optimizer": "adam"}
    plan = rebench.plan(network, X, base=mlp(width=4), **options)
    frame = plan.check(network, batch)
    stepped = copy.deepcopy(network).double()
    x = batch[0].double()
    before = stepped[:3](x).detach()
    F.cross_entropy(stepped(x), batch[1]).backward()
    torch.optim.Adam(plan.param_groups(stepped), eps=1e-30).step()
    moved = (stepped[:3](x) - before).square().mean() / before.square().mean()
    assert frame["movement"][1] == pytest.approx(math.sqrt(moved.item()))
    assert Plan.from_json(plan.to_json()).optimizer == "adam"
    assert "learning rate 0.001 for Adam" in str(plan)


def test_one_step_measures_tokens_with_their_loss():
    words = torch.randint(11, (4, 6), generator=generator())

    class Tagger(Former):
        def forward(self, words):
            return self.readout(self.embed(words) + self.positions)  # a prediction for each word

    network, options = Tagger(), {"rule": "one-step", "batch": (words, words % 3), "base_lr": 0.1}
    with pytest.raises(
        InputError, match=r"output \(shape \(4, 6, 3\)\) and a target .* For tokens"
    ):
        rebench.plan(network, words, **options)
    plan = rebench.plan(
        network,
        words,
        loss=lambda output, target: F.cross_entropy(output.flatten(0, -2), target.flatten()),
        **options,
    )
    assert plan.movement > 0
    with pytest.raises(InputError, match="must return a tensor with one number, got tensor"):
        rebench.plan(network, words, loss=lambda output, _: output, **options)


def test_init_draws_from_the_global_generator_by_default():
    plan, networks = _plan(), [mlp(), mlp()]
    torch.manual_seed(3)
    plan.init_(networks[0])
    plan.init_(networks[1], generator(3))
    for one, two in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(one, two)


def test_one_step_measures_both_networks():
    batch = (torch.randn(16, 6, generator=generator()), torch.arange(16) % 3)
    network, base = mlp(depth=6), mlp(depth=1)
    plan = rebench.plan(network, X, rule="one-step", base=base, base_lr=0.1, batch=batch)
    assert plan.learning_rate == pytest.approx(0.1 * math.sqrt(plan.base.movement / plan.movement))
    same = rebench.plan(base, X, rule="one-step", base=base, base_lr=0.1, batch=batch)
    assert same.learning_rate == pytest.approx(0.1)
    again = Plan.from_json(plan.base.to_json())
    from_file = rebench.plan(network, X, rule="one-step", base=again, base_lr=0.1, batch=batch)
    assert from_file.learning_rate == plan.learning_rate


def test_init_has_the_deviation_of_the_plan():
    network = ResNet(width=16)
    nn.init.constant_(network.stem[1].weight, 5)
    plan = rebench.plan(network, IMAGES, rule="topology(degree=target-live)")
    state = torch.get_rng_state()
    plan.init_(network, generator())
    assert torch.equal(torch.get_rng_state(), state)
    for row in plan.parameters:
        parameter = network.get_parameter(row.name)
        if row.paths is not None:
            assert parameter.std().item() == pytest.approx(row.std, rel=0.15)
    # The last convolution of a branch goes into a sum of two terms, so its variance is halved.
    # The standard deviation of the readout is 2 / fan_in (mean-field).
    named = rows(plan)
    assert named["blocks.0.conv1.weight"].std == pytest.approx(math.sqrt(2 / 144))
    assert named["blocks.0.conv2.weight"].std == pytest.approx(math.sqrt(1 / 144))
    assert named["blocks.2.short.0.weight"].std == pytest.approx(math.sqrt(1 / 16))
    assert named["readout.weight"].std == pytest.approx(2 / 128)
    assert network.stem[1].weight.eq(1).all()
    assert network.readout.bias.eq(0).all()
    again = ResNet(width=16)
    plan.init_(again, generator())
    assert all(
        torch.equal(one, other)
        for one, other in zip(network.parameters(), again.parameters(), strict=True)
    )


def test_default_init_is_pytorch_s():
    networks = [
        nn.Sequential(
            nn.Conv2d(3, 40, 3), nn.ReLU(), nn.ConvTranspose2d(40, 20, 3, 2), nn.Conv2d(20, 9, 1)
        )
        for _ in range(100)
    ]
    # Standard deviations over 100 networks: a bias of one network has only nine numbers.
    drawn = zip(*(each.parameters() for each in networks), strict=True)
    expected = [torch.stack(each).std().item() for each in drawn]
    network = networks[0]
    rebench.plan(network, IMAGES, rule="nb201").init_(network, generator())
    for parameter, std in zip(network.parameters(), expected, strict=True):
        assert parameter.std().item() == pytest.approx(std, rel=0.5 if parameter.dim() < 2 else 0.1)
    words = nn.Sequential(nn.Embedding(50, 30), nn.Linear(30, 5))
    plan = rebench.plan(words, torch.zeros(2, 3, dtype=torch.long), rule="nb201")
    assert rows(plan)["0.weight"].std == 1
    assert [row.fan_in for row in plan.parameters if row.paths] == [1, 30]


@pytest.mark.parametrize(
    "norm",
    [nn.BatchNorm1d(6), nn.LayerNorm(6), nn.GroupNorm(2, 6)],
    ids=lambda norm: type(norm).__name__,
)
def test_a_normalisation_has_a_gain_and_a_shift(norm):
    network = nn.Sequential(nn.Linear(5, 6, bias=False), norm, nn.ReLU(), nn.Linear(6, 3))
    plan = rebench.plan(network, torch.randn(4, 5), rule="nb201")
    assert {row.name: row.role for row in plan.parameters} == {
        "0.weight": "stem", "1.weight": "gain", "1.bias": "shift",
        "3.weight": "readout", "3.bias": "bias",
    }  # fmt: skip


def test_explain_shows_roles_and_effective_rates():
    network = ResNet()
    plan = rebench.plan(network, IMAGES, base_lr=0.1, weight_decay=5e-4)
    frame = plan.explain().set_index("name")
    stem = frame.loc["stem.0.weight"]
    assert (stem["role"], stem["fan_in"], stem["paths"]) == ("stem", 27, 256)
    # N(0, 2 / fan_in) of 4 x 27 numbers: |w|^2 is 8.
    assert stem["effective_rate"] == pytest.approx(0.1 / 8)
    assert stem["forgetting_steps"] == pytest.approx(1 / (0.1 * 5e-4))
    assert "its norm sets its rate" in stem["why"]
    assert frame.loc["readout.weight", ["effective_rate", "forgetting_steps"]].isna().all()
    assert frame.loc["stem.1.weight", "role"] == "gain"
    assert frame.loc["readout.bias", "why"] == "bias of readout.weight"
    with torch.no_grad():
        network.stem[0].weight.mul_(10 / network.stem[0].weight.norm())
    measured = plan.explain(network).set_index("name")
    assert measured.loc["stem.0.weight", "effective_rate"] == pytest.approx(0.1 / 100)


def test_a_printed_plan_is_a_table_of_at_most_20_lines():
    plan = rebench.plan(ResNet(), IMAGES, base_lr=0.1)
    first, columns, *rows, last = str(plan).splitlines()
    assert first == (
        "Plan by topology(base_lr=0.1): learning rate 0.1 for SGD (base_lr, as no base network was"
        " given); layers: 21, parameters: 62"
    )
    assert columns.split() == [
        "role", "learning_rate", "std", "in_degree", "paths", "scale_invariant",
    ]  # fmt: skip
    assert rows[0].split() == ["stem.0.weight", "stem", "0.1", "0.2722", "1", "256", "True"]
    assert rows[7].split() == ["..."] * 7
    assert rows[-1].startswith("readout.weight")
    assert len(rows) == 15
    assert last.startswith("plan.explain() returns a table of all parameters")
    assert repr(plan) == str(plan)


def test_a_network_without_parameters_has_an_empty_plan():
    plan = rebench.plan(nn.Flatten(), IMAGES, rule="fixed")
    assert plan.explain().empty
    assert str(plan).startswith(
        "Plan by fixed: learning rate 0.1 for SGD; layers: 0, parameters: 0"
    )


def test_path_counts_are_exact_in_frames_and_json():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(71))

        def forward(self, x):
            for layer in self.layers[:-1]:
                x = x + layer(x)
            return self.layers[-1](x)

    plan = rebench.plan(Deep(), torch.zeros(1, 2))
    assert plan.explain()["paths"].iloc[-1] == 2**70
    assert Plan.from_json(plan.to_json()).parameters[-1].paths == 2**70


def test_roles_of_a_reused_weight_and_of_other_parameters():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again = nn.Linear(6, 6), nn.Linear(6, 6)
            self.position = nn.Parameter(torch.ones(6))
            self.scale = nn.Parameter(torch.ones(6))
            self.dead, self.frozen = nn.Linear(6, 6), nn.Linear(6, 6)
            self.frozen.weight.requires_grad_(False)
            self.readout = nn.Linear(6, 3)

        def forward(self, x):
            x = self.first(x) + self.position
            x = x + self.scale * self.again(self.again(x))
            self.dead(x)
            return self.readout(self.frozen(x))

    network = Net()
    plan = rebench.plan(network, X, base_lr=0.1)
    named = rows(plan)
    assert {name: row.role for name, row in named.items() if "bias" not in name} == {
        "first.weight": "stem",
        "again.weight": "hidden",
        "position": "offset",
        "scale": "factor",
        "dead.weight": "unused",
        "frozen.weight": "hidden",
        "readout.weight": "readout",
    }
    assert named["again.weight"].paths == 2  # the only path uses the weight twice
    assert "used 2 times" in named["again.weight"].why
    # With the source's degree both uses of the weight have the variance 2 / 6. With the target's
    # degree, the use that goes into a sum has 1 / 6.
    plan = rebench.plan(network, X, rule="topology(degree=target-live)")
    assert rows(plan)["again.weight"].std == pytest.approx(math.sqrt(1 / 6))
    before = network.position.clone()
    plan.init_(network, generator())
    assert torch.equal(network.position, before)
    grouped = {id(p) for group in plan.param_groups(network) for p in group["params"]}
    assert grouped == {id(p) for p in network.parameters() if p.requires_grad}


def test_tied_weights_are_one_parameter_with_one_role():
    network = Former(classes=11)
    network.readout.weight = network.embed.weight
    plan = rebench.plan(network, torch.zeros(2, 6, dtype=torch.long))
    assert "readout.weight" not in rows(plan)
    assert rows(plan)["embed.weight"].role == "readout"
    with pytest.raises(InputError, match=r"embed\.weight as a readout"):
        rebench.plan(network, torch.zeros(2, 6, dtype=torch.long), rule="mup")


def test_a_plan_is_the_same_after_json_and_serves_as_base():
    plan = rebench.plan(mlp(depth=3), X, base=mlp(depth=2), weight_decay=1e-4)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.explain().equals(plan.explain())
    from_file = rebench.plan(mlp(depth=5), X, base=again.base)
    assert from_file.learning_rate == rebench.plan(mlp(depth=5), X, base=mlp(depth=2)).learning_rate
    for text in ("{", "[]", '{"rule": 1}', plan.to_json().replace('"shape"', '"shapes"', 1)):
        with pytest.raises(InputError, match="not a plan"):
            Plan.from_json(text)


@pytest.mark.parametrize(("old", "new", "place"), [
    ('"shape": [\n    8,', '"shape": [\n    1{zeros},', "shape.0"),
    ('"shape": [\n    8,\n    6', '"shape": [\n    1{half},\n    1{half}', "shape: .*fewer than 2"),
    ('"fan_in": 6', '"fan_in": 1{zeros}', "fan_in"),
    ('"in_degree": 1', '"in_degree": 1{zeros}', "in_degree"),
    ('"degrees": [\n   1', '"degrees": [\n   1{zeros}', "graph: .*below 2"),
    ('"paths": 1', '"paths": 1{zeros}', None),  # path counts are exact at any size
])  # fmt: skip
def test_a_plan_has_no_size_that_no_tensor_has(old: str, new: str, place: str | None):
    text = rebench.plan(mlp(), X).to_json()
    text = text.replace(old, new.format(zeros="0" * 400, half="0" * 10), 1)
    if place is None:
        assert Plan.from_json(text).explain()["paths"].max() == 10**400
        return
    with pytest.raises(InputError, match=f"not a plan: .*{place}"):
        Plan.from_json(text)


def _plan(**options):
    return rebench.plan(mlp(), X, **options)


def test_plan_without_a_base_says_that_its_rate_is_base_lr():
    said = "learning rate 0.1 for SGD (base_lr, as no base network was given);"
    assert said in str(_plan())
    assert said not in str(_plan(base=mlp()))
    assert said not in str(_plan(rule="fixed"))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: _plan().check(mlp(), X), r"batch must be a tuple \(inputs, target\), got a Tensor"),
    (lambda: _plan().check(mlp(), 3), r"batch must be a tuple \(inputs, target\), got a int"),
    (lambda: _plan().check(mlp(), (X,)), r"\(inputs, target\), got a tuple of 1"),
    (lambda: _plan().check(3, (X, X)), "model must be a torch module, got int"),
    (lambda: _plan().init_(mlp(), 0), "must be a torch.Generator, such as .*, got 0"),
    (lambda: _plan().init_("net", generator()), "model must be a torch module, got str"),
    (lambda: rebench.plan(X, X), "model must be a torch module, got Tensor"),
    (lambda: rebench.plan(mlp(), 3), "inputs must be a tensor .* got int"),
    (lambda: rebench.plan(mlp(), X.numpy()), "inputs must be a tensor .* got ndarray"),
    (lambda: rebench.plan(mlp(), X.shape), "inputs must be a tensor .* got numbers"),
    (lambda: _plan(rule=3), "rule must be the name of a recipe, .* got 3"),
    (lambda: _plan(base="net"), "base must be a torch module or a plan, got str"),
    (lambda: _plan(base=_plan(), rule="mup", base_lr=1.0, optimizer="adam"), "a plan for 'sgd'"),
    (lambda: _plan(opaque="skip"), "opaque must be 'error' or .* got 'skip'"),
    (lambda: _plan(weight_decay=-1), "weight_decay must be .* got -1"),
    (lambda: _plan(weight_decay="1"), "weight_decay must be .* got '1'"),
    (lambda: _plan(weight_decay=math.inf), "weight_decay must be .* got inf"),
])  # fmt: skip
def test_a_wrong_argument_is_named(call, message: str):
    with pytest.raises(InputError, match=message):
        call()


def test_a_compiled_or_loaded_module_takes_the_plan(tmp_path):
    network = mlp()
    plan = rebench.plan(network, X, base_lr=0.1)
    assert rebench.plan(torch.compile(mlp(), backend="eager"), X, base_lr=0.1) == plan
    plan.init_(network, generator())
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    loaded = mlp()
    loaded.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    compiled = torch.compile(mlp(), backend="eager")
    plan.init_(compiled, generator())
    for other in (loaded, compiled):
        assert all(
            torch.equal(one, two)
            for one, two in zip(network.parameters(), other.parameters(), strict=True)
        )
        (group,) = plan.param_groups(other)
        optimiser = torch.optim.SGD([group], momentum=0.9)
        F.cross_entropy(other(torch.randn(2, 6)), torch.tensor([0, 1])).backward()
        optimiser.step()
        assert group["lr"] == pytest.approx(0.1)
    with pytest.raises(InputError, match="another network"):
        plan.param_groups(mlp(depth=2))
    with pytest.raises(InputError, match=r"0\.weight is \(9, 6\) in the model and \(8, 6\)"):
        plan.init_(mlp(width=9), generator())


def test_widths_change_no_rate_of_rules_that_count_paths():
    for rule in ("topology", "exact", "paths"):
        plan = rebench.plan(mlp(width=32), X, rule=rule, base=mlp(width=8), base_lr=0.1)
        assert plan.learning_rate == pytest.approx(0.1)
