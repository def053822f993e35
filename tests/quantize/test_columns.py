"""First layers of int8 programs that read several columns at once: the same codes, and all of it told."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder, codes, interpreter, quantize, run, samples
from thinflow.errors import ParameterError
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.tflite.model import Operator, Program

KINDS = {"off": (3, 3, 3, 32), "portable": (3, 2, 6, 32), "amx": (3, 2, 12, 64)}
"""The filter [kh,taps,channels of a block,results of a block] of the first layer."""


def first_layers() -> Program:
    b = Builder()
    x = b.conv(b.input(1, 64, 64, 3), 32, stride_h=2, stride_w=2)
    return b.program(b.depthwise(x, stride_h=2, stride_w=2))


def first_conv(result: Quantized) -> Operator:
    return next(o for o in result.program.subgraphs[0].operators if o.code == "CONV_2D")


@pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_results_stay_the_same_to_the_bit(plain: bool, per_channel: bool) -> None:
    program = first_layers()
    feeds = samples(program, 4)
    found = {}
    for kind, (kh, taps, channels, count) in KINDS.items():
        result = quantize(program, feeds, columns=kind, per_channel=per_channel)
        assert first_conv(result).inputs[1].shape == (count, kh, taps, channels)
        found[kind] = [run(result.program, f["in0"], plain=plain)[0] for f in feeds]
    np.testing.assert_array_equal(found["portable"], found["off"])
    np.testing.assert_array_equal(found["amx"], found["off"])


def test_operators() -> None:
    program = first_layers()
    inner = {kind: codes(quantize(program, columns=kind).program)[1:-1] for kind in KINDS}
    assert inner["off"] == codes(program)
    assert inner["portable"] == ["RESHAPE", "CONV_2D", "DEPTHWISE_CONV_2D"]
    assert inner["amx"] == ["RESHAPE", "CONV_2D", "RESHAPE", "DEPTHWISE_CONV_2D"]
    assert codes(quantize(program).program)[1:-1] == inner["off"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_stored_tensor_has_its_decision(kind: str) -> None:
    result = quantize(first_layers(), columns=kind)
    stored = {t.name: t for t in result.program.subgraphs[0].tensors() if t.quantization}
    by_name = {d.tensor: d for d in result.decisions}
    assert set(by_name) == set(stored)
    assert len(by_name) == len(result.decisions)
    for name, decision in by_name.items():
        np.testing.assert_array_equal(decision.scale, stored[name].quantization.scale)
    if kind != "off":
        assert by_name["in0/int8/blocks"].reason == "the numbers of 'in0/int8', several columns at once"
        assert by_name["in0/int8/blocks"].range == by_name["in0/int8"].range


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_images(kind: str) -> None:
    one = quantize(first_layers(), columns=kind).program
    images = np.random.default_rng(3).standard_normal((3, 64, 64, 3)).astype(np.float32)
    session = interpreter(one, plain=False)
    (given,), (made,) = session.get_input_details(), session.get_output_details()
    session.resize_tensor_input(given["index"], images.shape)
    session.allocate_tensors()
    session.set_tensor(given["index"], images)
    session.invoke()
    expected = np.concatenate([run(one, image[None])[0] for image in images])
    np.testing.assert_array_equal(session.get_tensor(made["index"]), expected)


def test_codes_at_the_border_are_read_as_they_are() -> None:
    result = quantize(first_layers(), input_type="int8", columns="portable")
    assert codes(result.program)[0] == "RESHAPE"
    assert result.program.subgraphs[0].inputs[0].name == "in0"


def test_other_schemes_do_not_look_at_it() -> None:
    result = quantize(first_layers(), scheme="int16x8")
    assert first_conv(result).inputs[1].shape == (32, 3, 3, 3)


def test_a_kind_that_does_not_exist() -> None:
    with pytest.raises(ParameterError, match="columns cannot be 'neon'") as error:
        Recipe(columns="neon")
    assert error.value.hint == "there are: off, portable, amx"
