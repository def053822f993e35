"""Random numbers in C are those that LiteRT makes of the same seeds, run by run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many, ints, number
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Tensor
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
SEEDS = [{"seed": 12, "seed2": 345}, {"seed": -7, "seed2": 1 << 40}, {"seed": 0, "seed2": 5}]


def reals(net: Many, code: str, count: int, **seeds: int) -> Tensor:
    y = Tensor(f"{code}_{len(net.made)}", (count,), dtype("float"))
    sizes: list[Any] = [net.constant(f"sizes_{len(net.made)}", ints(count))]
    net.emit(code, sizes, y, **seeds)
    net.made.append(y)
    return y


def test_reals() -> None:
    net = Many(1, 3)
    # Some that do not fill the last block.
    for seeds, count in zip(SEEDS, (8, 13, 102), strict=True):
        reals(net, "RANDOM_UNIFORM", count, **seeds)
        reals(net, "RANDOM_STANDARD_NORMAL", count - count % 2, **seeds)
    net.add("ABS", [net.x], 1, 3)
    assert differences(net.content(), runs=4) == []


def test_classes() -> None:
    net = Many(3, 7)
    for kind, samples, seeds in zip(("int32", "int64", "int32"), (5, 8, 1), SEEDS, strict=True):
        net.add("MULTINOMIAL", [net.x, number(samples)], 3, samples, kind=kind, **seeds)
    # Odds of nothing, and of as good as nothing.
    odds = np.float32([[-np.inf, 3.0, -200.0], [0.0, np.inf, -np.inf]])
    net.add("MULTINOMIAL", [odds, number(50)], 2, 50, kind="int64", seed=1, seed2=0)
    assert differences(net.content(), runs=4) == []


@pytest.mark.parametrize("code", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"])
def test_without_seeds_they_are_refused(code: str) -> None:
    net = Many(2, 3)
    if code == "MULTINOMIAL":
        net.add(code, [net.x, number(4)], 2, 4, kind="int64")
    else:
        reals(net, code, 4)
    with pytest.raises(UnsupportedOp, match="it has no seeds: LiteRT's numbers are others each time"):
        network(read_program(net.content()), Options())
