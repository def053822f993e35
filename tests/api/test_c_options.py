"""What can be asked of a model's C, from Python: the same words everywhere that writes it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_networks import Layers
from thinflow.engines._c_library import compiler
from thinflow.lower.c.convert import TooLittleMemory, network
from thinflow.lower.c.options import Options
from thinflow.optimize.c_options import COptions
from thinflow.tflite.reader import read_program


def content(kind: str = "int8") -> bytes:
    """A network whose first picture is most of what it takes."""
    net = Layers(1, 24, 24, 2, kind=kind)
    net.conv(16)
    net.depthwise(step=2)
    net.mean()
    return net.content()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(content())
    return path


def arena(folder: Path) -> int:
    found = re.search(r"#define M_ARENA_BYTES (\d+)", (folder / "m.h").read_text())
    assert found is not None
    return int(found[1])


def test_convert_takes_all_of_them(model: Path, tmp_path: Path) -> None:
    thinflow.convert(model, tmp_path / "m.c")
    whole = arena(tmp_path)
    thinflow.convert(model, tmp_path / "m.c", cpu="cortex-m4", ram="8KB", layout="c++17")
    assert arena(tmp_path) < 8000 < whole
    assert "smlad" in (tmp_path / "m.c").read_text()
    assert (tmp_path / "m.hpp").exists()


def test_save_takes_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "float.tflite").write_bytes(content("float"))
    graph = thinflow.load(tmp_path / "float.tflite")
    thinflow.save(graph, tmp_path / "m.c")
    whole = arena(tmp_path)
    thinflow.save(graph, tmp_path / "m.c", cpu="cortex-m4", ram=whole * 0.6, layout="c++17")
    assert arena(tmp_path) < whole * 0.6
    assert (tmp_path / "m.hpp").exists()


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_what_was_read_from_a_quantized_file_stays_in_its_scales(suffix: str, tmp_path: Path) -> None:
    """A graph says its codes as reals; a .c of those would be of another kind, and four times as large."""
    (tmp_path / "net.tflite").write_bytes(content())
    path = tmp_path / f"small.{suffix}"
    thinflow.convert(tmp_path / "net.tflite", path)
    thinflow.convert(thinflow.load(path), tmp_path / "m.c")
    assert "const int8_t *input, int8_t *output" in (tmp_path / "m.h").read_text()
    assert "static const int8_t sample_output[16]" in (tmp_path / "m.c").read_text()


def test_a_quantized_model_takes_all_of_them(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    (tmp_path / "float.tflite").write_bytes(content("float"))
    feeds = [{"input_0": np.random.default_rng(n).random((1, 24, 24, 2), np.float32)} for n in range(4)]
    made = thinflow.quantize(tmp_path / "float.tflite", feeds, effort="none")
    made.save(tmp_path / "m.c")
    whole = arena(tmp_path)
    thinflow.save(made, tmp_path / "m.c", cpu="cortex-m4", ram="10KB")
    assert arena(tmp_path) < whole
    with pytest.raises(thinflow.ParameterError, match="a processor goes with"):
        thinflow.save(made, tmp_path / "m.tflite", cpu="cortex-m4")
    onnx = thinflow.quantize(tmp_path / "float.tflite", feeds, format="onnx", effort="none")
    with pytest.raises(thinflow.ParameterError, match="this model is not written as C"):
        thinflow.save(onnx, tmp_path / "m.c", cpu="cortex-m4")


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"cpu": "cortex-m5"}, "there is no processor 'cortex-m5'"),
        ({"sound": "loud"}, "there is no kind of sound 'loud'"),
        ({"ram": "much"}, "'much' is no size"),
        ({"ram": 2000}, "2,000 bytes of memory are too few for generic: the least is"),
    ],
)
def test_wrong_words_write_nothing(asked: dict[str, str], problem: str, model: Path, tmp_path: Path) -> None:
    for write in (thinflow.convert, lambda m, p, **o: thinflow.save(thinflow.load(m), p, **o)):
        with pytest.raises(thinflow.ParameterError) as told:
            write(model, tmp_path / "m.c", **asked)
        assert told.value.problem.startswith(problem)
        assert told.value.hint
    assert not (tmp_path / "m.c").exists()


@pytest.mark.parametrize("suffix", [".pb", ".onnx", ".tflite"])
def test_other_files_take_none(suffix: str, model: Path, tmp_path: Path) -> None:
    with pytest.raises(thinflow.ParameterError, match="a limit of memory goes with"):
        thinflow.convert(model, tmp_path / f"m{suffix}", ram="8KB")
    with pytest.raises(thinflow.ParameterError, match="a stream goes with"):
        thinflow.save(thinflow.load(model), tmp_path / f"m{suffix}", stream=True)
    assert not list(tmp_path.glob("m*"))


def test_the_least_that_is_told_is_enough(model: Path, tmp_path: Path) -> None:
    with pytest.raises(TooLittleMemory) as told:
        thinflow.convert(model, tmp_path / "m.c", cpu="cortex-m4", ram=1000)
    least = told.value.needed_bytes
    assert f"give {least:,} bytes or more" in told.value.hint
    thinflow.convert(model, tmp_path / "m.c", cpu="cortex-m4", ram=least, verify=False)
    assert arena(tmp_path) == told.value.least.plan.arena_bytes
    with pytest.raises(TooLittleMemory):
        thinflow.convert(model, tmp_path / "m.c", cpu="cortex-m4", ram=least - 65)


@pytest.mark.parametrize("part", [0.6, 0.75, 0.9])
def test_what_fits_by_fit_is_converted(part: float, model: Path, tmp_path: Path) -> None:
    """Both ask the processor's compiler for the stack, or both estimate it."""
    whole = thinflow.fit(model, cpu="cortex-m4", remedies=False)
    limit = int(part * whole.ram_bytes)
    found = thinflow.fit(model, cpu="cortex-m4", ram=limit, remedies=False)
    assert found.fits
    thinflow.convert(model, tmp_path / "m.c", cpu="cortex-m4", ram=limit, verify=False)
    assert arena(tmp_path) == found.footprint.arena_bytes


def test_options_in_words_are_those_of_the_writer() -> None:
    assert COptions().chosen() == Options()
    asked = COptions("xnnpack", "cortex-m55", "fixed", 8000, "zephyr", True, "64KiB").chosen()
    assert asked == Options("xnnpack", "cortex-m55", "fixed", "zephyr", True, ram=65536)


def test_what_is_outside_of_the_arena() -> None:
    made = network(read_program(content()), Options())
    assert made.outside_bytes == 24 * 24 * 2 + 16
    assert made.ram_bytes == made.plan.arena_bytes + made.outside_bytes
