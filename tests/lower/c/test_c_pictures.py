"""Pictures come in as bytes, and are resized and normalised in one layer, as LiteRT does it step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import Layers
from thinflow.api import convert_verified
from thinflow.engines._c_library import compiler
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.pictures import PICTURE
from thinflow.tflite.model import Quantization, Tensor
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
HALF = {"half_pixel_centers": True}


class Seen(Layers):
    """A network that sees bytes."""

    def __init__(self, *shape: int, kind: str = "uint8", seed: int = 0) -> None:
        super().__init__(*shape, kind="float", seed=seed)
        self.last = Tensor("input", shape, dtype(kind))
        self.block.inputs[:] = [self.last]

    def step(self, code: str, *others: Any, shape: Any = None, kind: str = "float", **options: Any) -> Tensor:
        number = len(self.block.operators)
        read = [self.last, *(self.constant(f"c{number}_{n}", np.asarray(o)) for n, o in enumerate(others))]
        y = Tensor(f"{code.lower()}_{number}", shape or self.sizes(), dtype(kind))
        return self.emit(code, read, y, **options)

    def resize(self, height: int, width: int, **options: Any) -> Tensor:
        n, _, _, channels = self.sizes()
        sizes = np.int32([height, width])
        return self.step("RESIZE_BILINEAR", sizes, shape=(n, height, width, channels), **options)

    def store(self, kind: str, scale: float, zero: int) -> Tensor:
        y = self.step("QUANTIZE", kind=kind)
        y.quantization = Quantization(np.float32([scale]), np.int64([zero]))
        return y


MEANS, SPREADS = np.float32([123.7, 116.3, 103.5]), np.float32([58.4, 57.1, 57.4])


def codes(made: Network) -> list[str]:
    return [layer.operator.code for layer in made.layers]


def layers(net: Seen) -> list[str]:
    return codes(network(read_program(net.content()), Options()))


@pytest.mark.parametrize("kind", ["float", "int8", "uint8", "int16"])
def test_resized_and_normalised(kind: str) -> None:
    net = Seen(2, 23, 17, 3)
    net.step("CAST")
    net.resize(9, 12, **HALF)
    net.step("SUB", MEANS)
    net.step("DIV", SPREADS)
    if kind != "float":
        net.store(kind, 0.02 if kind != "int16" else 0.0001, 5 if kind != "int16" else 0)
    # Integers are the same to the last bit: those of the step by step network, too, in less memory.
    assert differences(net.content(), runs=5) == []
    assert layers(net) == [PICTURE]
    # XNNPACK adds up in another order, and the last bit of a real would be a step of an integer.
    alone = codes(network(read_program(net.content()), Options("xnnpack")))
    assert alone == ([PICTURE] if kind == "float" else [PICTURE, "QUANTIZE"])
    assert kind != "float" or differences(net.content(), "xnnpack") == []


def test_normalised_before_they_are_resized() -> None:
    net = Seen(1, 8, 9, 3, kind="int8")
    net.step("CAST")
    net.step("MUL", np.float32(1 / 127.5))
    net.step("ADD", np.float32([[[0.1, -0.2, 0.3]]]))
    net.resize(16, 5, align_corners=True)
    net.step("MUL", SPREADS)
    net.store("int8", 0.3, -5)
    assert differences(net.content(), runs=5) == []
    assert layers(net) == [PICTURE]


def test_bytes_with_a_scale_and_constants_in_front() -> None:
    net = Seen(2, 5, 4, 3)
    net.last.quantization = Quantization(np.float32([1 / 255]), np.int64([3]))
    net.step("DEQUANTIZE")
    net.step("MUL", np.float32(2))
    x = net.last
    one = net.constant("one", np.float32(1))
    net.emit("SUB", [one, x], Tensor("inverted", net.sizes(), dtype("float")))
    net.store("int8", 1 / 100, 7)
    assert differences(net.content(), runs=5) == []
    assert layers(net) == [PICTURE]


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_functions_of_a_byte_are_tables(kind: str, rounding: str) -> None:
    for means, calls in ((np.float32(127.5), "lookup"), (MEANS, "lookup_channels")):
        for scale in (1.0, 0.02):
            net = Seen(1, 16, 16, 3, kind=kind)
            net.step("CAST")
            net.step("SUB", means)
            net.step("MUL", np.float32(1 / 58) if scale < 1 else np.float32(1))
            net.store("int8", scale, 0)
            assert differences(net.content(), rounding, runs=3) == []
            made = network(read_program(net.content()), Options(rounding))
            assert [call.kernel for layer in made.layers for call in layer.calls] == [calls]


@pytest.mark.parametrize("mode", [{}, HALF, {"align_corners": True}], ids="_".join)
def test_bytes_are_resized_as_tables_say(mode: dict[str, bool]) -> None:
    for means in (np.float32(128), MEANS):
        net = Seen(2, 23, 17, 3)
        net.step("CAST")
        net.step("SUB", means)
        stored = net.store("int8", 1.0, 0)
        net.resize(9, 30, **mode)
        net.last.dtype, net.last.quantization = stored.dtype, stored.quantization
        assert differences(net.content(), runs=3) == []
        made = network(read_program(net.content()), Options())
        assert [call.kernel for layer in made.layers for call in layer.calls] == ["resize_bilinear_table"]


def test_what_others_read_stays_as_it_is() -> None:
    net = Seen(1, 6, 6, 3)
    real = net.step("CAST")
    net.step("MUL", np.float32(0.1))
    net.binary("ADD", net.last, real)
    assert differences(net.content()) == []
    assert layers(net) == ["CAST", "MUL", "ADD"]


def test_more_constants_than_there_is_room_for() -> None:
    net = Seen(1, 6, 6, 3)
    net.step("CAST")
    for n in range(8):
        net.step("ADD", np.float32(n))
    assert differences(net.content()) == []
    assert layers(net) == [PICTURE, "ADD", "ADD"]


def test_no_picture_of_reals_is_in_memory(tmp_path: Path) -> None:
    net = Seen(1, 96, 128, 3)
    net.step("CAST")
    net.resize(24, 24, **HALF)
    net.step("SUB", np.float32(127.5))
    net.step("MUL", np.float32(1 / 127.5))
    net.store("int8", 1 / 128, 0)
    net.kind = "int8"
    net.conv(4, 3, 2)
    (tmp_path / "net.tflite").write_bytes(net.content())
    made = convert_verified(tmp_path / "net.tflite", tmp_path / "net.c")
    assert "every number is equal" in made.proof
    text = (tmp_path / "net.h").read_text()
    arena = int(text.partition("NET_ARENA_BYTES ")[2].split()[0])
    # The small picture, and little more; as reals the large one would take 147,456 bytes by itself.
    assert arena < 24 * 24 * 3 + 1000
    # With little memory the layers behind it run a few rows at a time.
    convert_verified(tmp_path / "net.tflite", tmp_path / "small.c", ram="40KB")


def test_pictures_that_are_normalised_only_run_in_bands() -> None:
    net = Seen(1, 48, 48, 3)
    net.step("CAST")
    net.step("SUB", np.float32(127.5))
    net.store("int8", 1.0, 0)
    net.kind = "int8"
    net.conv(8, 3, 1)
    net.pool("MAX_POOL_2D", 2, 2)
    content = net.content()
    whole = network(read_program(content), Options())
    made = network(read_program(content), Options(ram=whole.outside_bytes + 8000))
    assert made.plan.arena_bytes <= 8000 < whole.plan.arena_bytes
    assert made.bands[0].start == 0
    assert differences(content, bands=()) == []


def test_what_keeps_a_picture_whole_is_named() -> None:
    net = Seen(1, 20, 20, 3)
    net.step("CAST")
    resized = net.resize(24, 24, **HALF)
    net.step("SUB", MEANS)
    net.conv(8, 3, 1, "VALID")
    net.mean()
    # Rows of a picture that is resized are no multiple of those that come in.
    with pytest.raises(ParameterError, match=f"RESIZE_BILINEAR '{resized.name}' runs whole"):
        network(read_program(net.content()), Options(ram=4000))
    why = f"nothing of the network's window .*: RESIZE_BILINEAR '{resized.name}' reads all of its rows"
    with pytest.raises(UnsupportedOp, match=why):
        network(read_program(net.content()), Options(stream=True))
