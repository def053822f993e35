"""Random graphs of int8 and float operators: always valid, always loadable, no border crossed twice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.quantize.programs import POOL, Builder, codes, quantize, run, samples, sqnr
from thinflow.quantize.kernels.litert import CLAMPS
from thinflow.tflite.model import Program, Tensor

HWC = (1, 8, 8, 4)


def random_program(seed: int) -> Program:
    """Up to 14 operators on tensors of one shape, one to three outputs, sometimes pooled."""
    b = Builder(seed)
    rng = np.random.default_rng(seed)
    made: list[Tensor] = [b.input(*HWC), b.input(*HWC)]

    def pick() -> Tensor:
        return made[rng.integers(max(0, len(made) - 5), len(made))]

    def conv(x: Tensor) -> Tensor:
        b.channels[x] = 4
        act = rng.choice(["NONE", "RELU", "RELU6"])
        return b.conv(x, 4, act=act) if rng.random() < 0.5 else b.depthwise(x, act=act)

    steps = [
        conv,
        conv,
        lambda x: b.op("ADD", x, pick()),
        lambda x: b.op("MUL", x, b.normal(4, scale=0.5)),
        lambda x: b.op("MAXIMUM", x, pick()),
        lambda x: b.op(
            "CONCATENATION", *b.op("SPLIT", b.const(np.array(3)), x, out=(x.dtype,) * 2, num_splits=2), axis=3
        ),
        lambda x: b.op("RELU", x),
        lambda x: b.op("LOGISTIC", x),
        lambda x: b.op("TANH", x),
        lambda x: b.op("SIN", x),
        lambda x: b.op("SQUARE", x),
        lambda x: b.op("TRANSPOSE", x, b.const(np.array([0, 2, 1, 3]))),
    ]
    for _ in range(rng.integers(2, 14)):
        step = steps[rng.integers(len(steps))]
        made.append(step(pick()))
    unread = [t for t in made[2:] if not any(t in o.inputs for o in b.operators)][:3]
    unread[0] = b.op("AVERAGE_POOL_2D", unread[0], **POOL) if rng.random() < 0.5 else unread[0]
    return b.program(*unread)


@pytest.mark.parametrize("border", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("seed", range(40))
def test_random_program(seed: int, border: str) -> None:
    program = random_program(seed)
    feeds = samples(program, 8)
    result = quantize(program, feeds, input_type=border, output_type=border)
    new = result.program.subgraphs[0]
    result.program.validate()
    kept = [c for c in codes(result.program) if c not in {"QUANTIZE", "DEQUANTIZE"}]
    # A scale that ends at the limits of a clamp does its work.
    assert set((Counter(codes(program)) - Counter(kept)).keys()) <= CLAMPS.keys()
    assert not Counter(kept) - Counter(codes(program))
    producers = new.producers()
    crossed: set[tuple[str, Tensor]] = set()
    for operator in new.operators:
        if operator.code not in {"QUANTIZE", "DEQUANTIZE"}:
            continue
        source = operator.inputs[0]
        assert (operator.code, source) not in crossed
        crossed.add((operator.code, source))
        before = producers.get(source)
        assert before is None or before.code not in {"QUANTIZE", "DEQUANTIZE"}
        assert operator.outputs[0] in new.outputs or operator.outputs[0] in new.consumers()
    arrays = list(feeds[0].values())
    if border == "float32":
        expected = run(program, *arrays)
        for plain in (False, True):
            for y, z in zip(expected, run(result.program, *arrays, plain=plain), strict=True):
                assert sqnr(y, z) > 12
    else:
        zeros = [np.zeros(t.shape, t.dtype.numpy()) for t in new.inputs]
        run(result.program, *zeros)
