"""Networks over time that hear a few rows a run answer as the whole window does, frame by frame."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_answers import STRICT, litert
from tests.lower.c.c_networks import Layers
from thinflow.engines._c_library import Library
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

FLAGS = ("-std=c99", "-O1", "-fPIC", "-shared", "-ffp-contract=off", *STRICT)
RELU = {"fused_activation_function": "RELU"}


def valid(net: Layers) -> None:
    net.conv(6, 3, 1, "VALID", **RELU)
    net.depthwise(1, 3, 1, "VALID")
    net.conv(4, 1)
    net.mean()


def padded(net: Layers) -> None:
    """As keyword networks have it: padding everywhere, and steps of two."""
    net.conv(6, 3, 2, "SAME", **RELU)
    net.depthwise(1, 3, 1, "SAME", **RELU)
    net.conv(5, 1, **RELU)
    net.pool("AVERAGE_POOL_2D", 3)
    net.reshaped(1, int(np.prod(net.sizes())))
    net.dense(4)
    net.softmax()


def residual(net: Layers) -> None:
    net.conv(4, 1)
    short = net.last
    net.conv(4, 3, 1, "SAME")
    net.binary("ADD", net.last, short, **RELU)
    net.unary("LOGISTIC")
    net.mean()


NETWORKS: list[Callable[[Layers], None]] = [valid, padded, residual]


def library(made: Network) -> Library:
    return Library(made, Writer(made, "net").files(), "net", FLAGS)


@pytest.mark.parametrize("kind", ["int8", "float"])
@pytest.mark.parametrize("build", NETWORKS)
def test_frame_by_frame(build: Callable[[Layers], None], kind: str) -> None:
    net = Layers(1, 24, 6, 1, kind=kind, seed=1)
    build(net)
    content = net.content()
    made = network(read_program(content), Options(stream=True))
    whole = network(read_program(content), Options())
    (_, hop, *rest) = made.block.inputs[0].shape or ()
    assert hop is not None
    assert hop < 24
    assert made.macs < whole.macs
    rng = np.random.default_rng(0)
    count = 24 + 6 * hop
    data = (
        rng.integers(-128, 128, (1, count, *rest))
        if kind == "int8"
        else rng.standard_normal((1, count, *rest))
    )
    sound: Array = data.astype("int8" if kind == "int8" else "float32")
    streamed, windowed = library(made), library(whole)
    engine = litert(content, "litert")
    (details,) = engine.get_input_details()
    compared = 0
    for end in range(hop, count + 1, hop):
        (y,) = streamed.run([np.ascontiguousarray(sound[:, end - hop : end])])
        if end < 24:
            continue
        window = np.ascontiguousarray(sound[:, end - 24 : end])
        (right,) = windowed.run([window])
        engine.set_tensor(details["index"], window)
        engine.invoke()
        official = engine.get_tensor(engine.get_output_details()[0]["index"])
        if kind == "int8":
            assert (y == right).all()
            assert (y == official).all()
        else:
            assert np.abs(y - official).max() <= 1e-5 * np.abs(official).max()
        compared += 1
    assert compared >= 6


def test_what_keeps_nothing_is_refused() -> None:
    net = Layers(1, 24)
    net.dense(5)
    why = "nothing of the network's window can be kept from .*: FULLY_CONNECTED '.*' reads all of its rows"
    with pytest.raises(UnsupportedOp, match=why) as raised:
        network(read_program(net.content()), Options(stream=True))
    assert raised.value.hint == "leave out --stream, or begin the network behind it with --inputs"


def test_a_stream_is_written_and_proven(tmp_path: Path) -> None:
    net = Layers(1, 24, 6, 1, seed=2)
    padded(net)
    (tmp_path / "net.tflite").write_bytes(net.content())
    made = thinflow.convert_verified(tmp_path / "net.tflite", tmp_path / "ears.c", stream=True)
    assert "as a stream it answered as the whole window did, in 6 runs" in made.proof
    assert any(note.endswith("answers hold from run 12 on") for note in made.notes)
    header = (tmp_path / "ears.h").read_text()
    assert "void ears_run(ears_state *state, const int8_t *input, int8_t *output);" in header
    assert "#define EARS_INPUT_SIZE 12" in header
    # On the device a sample goes in run by run; the answer behind its last row is that of the whole window.
    (tmp_path / "main.c").write_text('#include "ears.h"\nint main(void)\n{\n    return ears_selftest();\n}\n')
    built = ["cc", "-std=c99", *STRICT, "-DEARS_SELFTEST", "main.c", "ears.c", "ears_weights.c", "-lm"]
    subprocess.run([*built, "-o", "test"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "test"], cwd=tmp_path).returncode == 0
    text = (tmp_path / "ears.c").read_text()
    assert "for (int32_t run = 0; run < 12; run++) {" in text
    (tmp_path / "ears.c").write_text(text.replace("run < 12", "run < 2"))
    subprocess.run([*built, "-o", "short"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "short"], cwd=tmp_path).returncode > 0
    with pytest.raises(ParameterError, match=r"a stream goes with \.c files only"):
        thinflow.convert_verified(tmp_path / "net.tflite", tmp_path / "net.pb", stream=True)
