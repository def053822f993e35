"""What judges floats of C tells roundings from errors: both beside sums of 64 bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.c.exact import Level, compiled_here
from benchmarks.c.exact_sums import ExactSums, judged
from tests.lower.c.c_networks import Layers
from thinflow.engines._c_library import Library, compiler
from thinflow.lower.c.convert import Network
from thinflow.lower.c.options import Options
from thinflow.tflite.reader import read_program
from thinflow.typing import Array


@pytest.mark.parametrize(
    ("got", "litert", "exact", "error", "is_wrong"),
    [
        # Both round: the C is nearer to the truth than the kernel it would have been compared with.
        (1 - 1e-5, 1 + 1.5e-5, 1.0, 1e-5, False),
        (1 - 4e-5, 1 + 1.5e-5, 1.0, 4e-5, False),
        # Much further than the kernel is more than rounding, and so is what no kernel rounds.
        (1 - 6e-5, 1 + 1.5e-5, 1.0, 6e-5, True),
        (1 - 2e-5, 1.0, 1.0, 2e-5, True),
        # Sums of other numbers, and none at all, leave it to LiteRT.
        (1 - 2e-5, 1.0, 1 - 1e-2, 2e-5, True),
        (1.0, 1 - 1e-6, 1 - 1e-2, 1e-6, False),
        (1 - 2e-5, 1.0, None, 2e-5, True),
        (np.nan, 1.0, 1.0, np.inf, True),
    ],
)
def test_errors_are_those_of_the_c(
    got: float, litert: float, exact: float | None, error: float, is_wrong: bool
) -> None:
    arrays = (np.array([0.5, x]) for x in (got, litert))
    found = judged(*arrays, None if exact is None else np.array([0.5, exact]))
    assert found == (pytest.approx(error, rel=1e-3), is_wrong)


def cancelling() -> Layers:
    """A convolution whose products cancel but for a thousandth, and what is small beside its bias."""
    net = Layers(1, 6, 6, 32, kind="float")
    net.conv(4, 3)
    weights, bias = net.block.operators[0].inputs[1:]
    assert weights is not None
    assert bias is not None
    w = weights.array()
    weights.data = np.concatenate([w[..., :16], 1e-4 * w[..., 16:] - w[..., :16]], -1)
    bias.data = bias.array() * np.float32(1e-3)
    return net


def numbers() -> Array:
    half = np.random.default_rng(0).standard_normal((1, 6, 6, 16)).astype(np.float32)
    return np.concatenate([half, half], -1)


def shifted(constant: Array) -> None:
    constant[:] = np.roll(constant, 1)


def dropped(constant: Array) -> None:
    constant[:] = 0


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("name", "change"), [("", None), ("bias", dropped), ("weights", shifted)], ids=["right", "bias", "tap"]
)
def test_a_wrong_tap_and_a_missing_bias_are_no_roundings(
    name: str, change: Callable[[Array], None] | None
) -> None:
    def compiled(made: Network) -> Library:
        constants = [c for layer in made.layers for c in layer.constants() if name and name in c.name]
        assert bool(constants) == (change is not None)
        for constant in constants:
            constant.data = constant.data.copy()
            if change is not None:
                change(constant.data)
        return compiled_here(made)

    level = Level(cancelling().content(), 0, Options(), compiled)
    assert bool(list(level.wrongs([numbers()]))) == (change is not None)
    assert level.layers is not None
    assert level.layers.exact


def test_sums_are_of_64_bits() -> None:
    net = cancelling()
    sums = ExactSums.of_program(read_program(net.content()), net.content())
    assert sums is not None
    (found,) = sums.of([numbers()]) or [None]
    assert found is not None
    assert found.dtype == np.float64
    # In 32 bits as much as this would be left of the products that cancel.
    w, bias = (t.array().astype(np.float64) for t in net.block.operators[0].inputs[1:] if t is not None)
    x = np.pad(numbers()[0].astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    wanted = np.einsum("yxc,kyxc->k", x[:3, :3], w) + bias
    np.testing.assert_allclose(found[0, 0, 0], wanted, rtol=1e-10)
