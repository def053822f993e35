"""Channels that hardly tell anything are left out, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.quantize import onnx_programs
from tests.quantize.programs import Builder, run, sqnr
from tests.quantize.related_inputs import related
from thinflow.errors import ParameterError
from thinflow.program.model import Tensor
from thinflow.quantize.fit import Fit
from thinflow.quantize.pruning import Pruned, prune
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import Recipe

WIDE = 16
WEAK = 8
"""Of each width, from the second channel on."""
HALF = slice(1, 1 + WEAK)


def weakened(weights: Tensor, axis: int, places: int = 1) -> Tensor:
    """Half of the channels that weights read, hardly to be heard; of a picture, at each of its places."""
    one = np.ones(weights.data.shape[axis] // places)
    one[HALF] = 1e-4
    beside = [-1 if a == axis else 1 for a in range(weights.data.ndim)]
    weights.data *= np.tile(one, places).reshape(beside).astype(np.float32)
    return weights


class Net(Builder):
    """Layers whose second half of channels is weak."""

    def layer(self, x: Tensor, k: int, *, weak: bool = True, size: int = 1) -> Tensor:
        y = self.conv(x, k, size, act="RELU")
        if weak:
            weakened(self.operators[-1].inputs[1], 3)
        return y

    def end(self, x: Tensor, *, places: int = 1) -> Tensor:
        w = self.normal(5, self.channels[x] * places, scale=0.2)
        return self.op(
            "FULLY_CONNECTED", x, weakened(w, 1, places=places), self.normal(5), keep_num_dims=False
        )


def chain(b: Net, x: Tensor) -> Tensor:
    return pooled(b, b.layer(b.layer(x, WIDE, weak=False), WIDE))


def pooled(b: Net, x: Tensor) -> Tensor:
    y = b.op("MEAN", x, b.const(np.array([1, 2])), keep_dims=False)
    b.channels[y] = b.channels[x]
    return b.end(y)


def residual(b: Net, x: Tensor) -> Tensor:
    first = b.layer(x, WIDE, weak=False)
    y = b.op("ADD", first, b.layer(first, WIDE), fused_activation_function="RELU")
    b.channels[y] = WIDE
    return pooled(b, y)


def beside(b: Net, x: Tensor) -> Tensor:
    """Two tensors side by side, the first of them with weak channels."""
    parts = [b.layer(x, WIDE, weak=False), b.layer(x, 4, weak=False)]
    y = b.op("CONCATENATION", *parts, axis=3, fused_activation_function="NONE")
    b.channels[y] = WIDE + 4
    return pooled(b, y)


def flattened(b: Net, x: Tensor) -> Tensor:
    y = b.layer(x, WIDE, weak=False)
    flat = b.op("RESHAPE", y, b.const(np.array([1, 36 * WIDE])), new_shape=[1, 36 * WIDE])
    b.channels[flat] = WIDE
    return b.end(flat, places=36)


def each(b: Net, x: Tensor) -> Tensor:
    return pooled(b, b.layer(b.depthwise(b.layer(x, WIDE, weak=False), act="RELU"), WIDE))


def clamped(b: Net, x: Tensor) -> Tensor:
    """No factor gets past these limits."""
    y = b.conv(x, WIDE, 1, act="RELU6")
    y = b.conv(y, WIDE, 1, act="NONE")
    weakened(b.operators[-1].inputs[1], 3)
    y = b.op("RELU6", y)
    b.channels[y] = WIDE
    return pooled(b, y)


NETS: dict[str, tuple[Callable[[Net, Tensor], Tensor], int]] = {
    "chain": (chain, 2 * WEAK),
    "residual": (residual, WEAK),
    "beside": (beside, WEAK),
    "flattened": (flattened, WEAK),
    # In front of the depthwise layer and behind it, and those behind the last one.
    "each": (each, 3 * WEAK),
    "clamped": (clamped, 2 * WEAK),
}


@pytest.mark.parametrize("name", NETS)
def test_weak_channels_go_and_answers_stay(name: str) -> None:
    make, gone = NETS[name]
    b = Net(2)
    program = b.program(make(b, b.input(1, 6, 6, 4)))
    feeds = related(program, 24)
    made = prune(program, 60.0, feeds)
    # A ReLU may cut off all of one more.
    assert gone <= made.removed <= gone + 2
    told = f"{made.removed} of {made.channels} channels were removed, {made.weights} weights"
    assert made.sentence.startswith(told)
    for feed in related(program, 3, seed=11):
        wanted, found = (run(p, *feed.values())[0] for p in (program, made.program))
        assert sqnr(wanted, found) > 50
    # Nothing of that kind is left.
    assert prune(made.program, 60.0, feeds).removed == 0


def test_means_go_into_the_next_bias() -> None:
    """A channel that is nearly a constant, and loud."""
    b = Net(2)
    y = b.conv(b.input(1, 6, 6, 4), WIDE, 1, act="RELU")
    w, bias = b.operators[-1].inputs[1:]
    w.data[HALF] *= 1e-4
    bias.data[HALF] = 3.0
    program = b.program(b.conv(y, 5, 1, act="NONE"))
    made = prune(program, 60.0, related(program, 24))
    assert made.removed == WEAK
    feed = related(program, 1, seed=11)[0]
    wanted, found = (run(p, *feed.values())[0] for p in (program, made.program))
    assert sqnr(wanted, found) > 50


def test_what_reaches_beyond_a_picture_keeps_loud_constants() -> None:
    """Zeros are read there instead of them."""
    b = Net(2)
    y = b.conv(b.input(1, 6, 6, 4), WIDE, 1, act="RELU")
    w, bias = b.operators[-1].inputs[1:]
    w.data[HALF], bias.data[HALF] = 0, 3.0
    program = b.program(b.conv(y, 5, 3, act="NONE"))
    assert prune(program, 30.0, related(program, 24)).removed == 0


def onnx_net(*, end: str) -> Any:
    net = onnx_programs.Net(1, 4, 6, 6)
    x = net.op("Relu", net.conv(net.x, WIDE))
    if end == "depthwise":
        w = net.rng.standard_normal((WIDE, 1, 3, 3)).astype(np.float32)
        x = net.op("Conv", x, w, group=WIDE, pads=(1, 1, 1, 1), kernel_shape=(3, 3))
    y = net.conv(x, 5)
    weakened(net.program.operators[-1].inputs[1], 1)
    net.program.outputs = [y]
    return net.program


@pytest.mark.parametrize(("end", "gone"), [("plain", WEAK), ("depthwise", 2 * WEAK)])
def test_the_same_in_onnx(end: str, gone: int) -> None:
    program = onnx_net(end=end)
    feeds = related(program, 24)
    made = prune(program, 60.0, feeds)
    assert made.removed == gone
    onnx_programs.check(made.program)
    wanted, found = (onnx_programs.run(p, feeds[0])[0] for p in (program, made.program))
    assert sqnr(wanted, found) > 50


def test_channels_that_tell_something_stay() -> None:
    b = Net(2)
    program = b.program(b.conv(b.conv(b.input(1, 6, 6, 4), WIDE, 1, act="RELU"), 5, 1, act="NONE"))
    made = prune(program, 60.0, related(program, 24))
    assert made.program is program
    assert (made.removed, made.sentence) == (0, "")
    assert prune(program, 60.0, []) == Pruned(program)


def test_one_channel_of_each_group_stays() -> None:
    b = Net(2)
    y = b.conv(b.input(1, 6, 6, 4), WIDE, 1, act="RELU")
    b.operators[-1].inputs[1].data[:] = 0
    program = b.program(b.conv(y, 5, 1, act="NONE"))
    assert prune(program, 60.0, related(program, 8)).removed < WIDE


def test_a_recipe_asks_for_it() -> None:
    b = Net(2)
    program = b.program(residual(b, b.input(1, 6, 6, 4)))
    feeds = related(program, 24)
    fit = Fit(program, feeds, feeds)
    recipe = Recipe(prune=60.0)
    assert recipe.needs_a_look
    assert fit.pruned(recipe).removed == WEAK
    made = fit.quantized(recipe)
    sizes = {t.shape for t in made.program.subgraphs[0].constants() if t.dtype.name == "int8"}
    assert (WIDE - WEAK, 1, 1, WIDE - WEAK) in sizes
    wanted, found = (run(p, *feeds[0].values())[0] for p in (program, made.program))
    assert sqnr(wanted, found) > 25
    # Ranges that were trained are those of the program as it came.
    first = program.subgraphs[0].inputs[0]
    assert Fit(program, feeds, feeds, stated={first: Range(-1, 1, "trained")}).pruned(recipe).removed == 0


@pytest.mark.parametrize("level", [5.0, -1.0, float("nan"), 1000.0])
def test_levels_that_cannot_be(level: float) -> None:
    with pytest.raises(ParameterError, match="prune cannot be") as error:
        Recipe(prune=level)
    assert error.value.hint.startswith("give 0, or 10 to 200 decibels")
