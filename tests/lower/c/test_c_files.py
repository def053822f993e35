"""The files of a network in C; strict compilers and sanitizers have nothing to say about them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_answers import STRICT
from tests.lower.c.c_networks import Layers, mixed
from tests.transforms.golden import parse_graph
from thinflow import formats
from thinflow.engines._c_library import compiler
from thinflow.errors import ParameterError, UnsupportedOp, WriteError
from thinflow.lower.c.convert import network
from thinflow.lower.c.names import comment, identifier
from thinflow.lower.c.options import Options
from thinflow.lower.c.sample import generated
from thinflow.lower.c.write import Writer
from thinflow.optimize.c_answers import answers, self_test
from thinflow.tflite.reader import read_program

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def model(folder: Path, content: bytes, name: str = "net.tflite") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def texts(content: bytes, name: str = "net", **options: str) -> dict[str, str]:
    return Writer(network(read_program(content), Options(**options)), name).files()


def dense(kind: str = "int8") -> bytes:
    net = Layers(1, 4, kind=kind)
    net.dense(3)
    return net.content()


@needs_compiler
def test_convert_proves_and_writes_three_files(tmp_path: Path) -> None:
    source = model(tmp_path, mixed("int8"))
    size = thinflow.convert(source, tmp_path / "net.c")
    files = [tmp_path / name for name in ("net.c", "net.h", "net_weights.c")]
    assert size == sum(f.stat().st_size for f in files)
    header = files[1].read_text()
    assert "#define NET_INPUT_SIZE 216" in header
    assert "#define NET_OUTPUT_SCALE 0.00390625f" in header
    assert "#define NET_OUTPUT_ZERO_POINT -128" in header
    assert "void net_run(const int8_t *input, int8_t *output);" in header
    source_text = files[0].read_text()
    assert "/* 1: CONV_2D conv_2d_0 [1, 9, 8, 6] (11,664 MACs, " in source_text
    # The kernel of an operator that is not there is not there either.
    assert "gather" not in source_text


@needs_compiler
@pytest.mark.parametrize("kind", ["int8", "float"])
def test_the_test_on_the_device_under_sanitizers(kind: str, tmp_path: Path) -> None:
    thinflow.convert(model(tmp_path, mixed(kind)), tmp_path / "net.c")
    (tmp_path / "main.c").write_text(
        '#include "net.h"\nint main(void)\n{\n    return net_selftest() + net_selftest() != 0;\n}\n'
    )
    flags = [
        "-std=c99",
        "-O1",
        "-g",
        "-DNET_SELFTEST",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover",
    ]
    built = ["cc", *flags, *STRICT, "main.c", "net.c", "net_weights.c", "-lm", "-o", "test"]
    subprocess.run(built, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "test"], cwd=tmp_path).returncode == 0


@needs_compiler
def test_the_test_on_the_device_counts_what_is_wrong(tmp_path: Path) -> None:
    thinflow.convert(model(tmp_path, dense()), tmp_path / "net.c")
    # Weights that were damaged in flash.
    weights = tmp_path / "net_weights.c"
    text = weights.read_text()
    start = text.index("_weights[12] = {") + len("_weights[12] = {")
    end = text.index("}", start)
    weights.write_text(f"{text[:start]}0{text[end:]}")
    (tmp_path / "main.c").write_text('#include "net.h"\nint main(void)\n{\n    return net_selftest();\n}\n')
    built = ["cc", "-std=c99", "-DNET_SELFTEST", "main.c", "net.c", "net_weights.c", "-lm", "-o", "test"]
    subprocess.run(built, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "test"], cwd=tmp_path).returncode > 0


def test_the_arena_is_no_larger_than_two_values_that_meet() -> None:
    net = Layers(1, 8, 8, 4)
    for _ in range(4):
        net.depthwise()
    made = network(read_program(net.content()), Options())
    sums = 4 * 4
    # Input and output are the caller's, so that two values inside are alive at once.
    assert made.plan.arena_bytes <= 2 * 256 + sums
    kept = network(read_program(net.content()), Options(keep_all=True))
    assert kept.plan.arena_bytes >= 3 * 256


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("kws", "kws"), ("1-net v2", "net_1_net_v2"), ("int", "net_int"), ("größe", "gr_e"), ("...", "net")],
)
def test_names_that_c_does_not_take(name: str, wanted: str) -> None:
    assert identifier(name) == wanted


@needs_compiler
@pytest.mark.parametrize("name", ["1-net v2", "double", "größe"])
def test_files_of_any_name_compile(name: str, tmp_path: Path) -> None:
    thinflow.convert(model(tmp_path, dense()), tmp_path / f"{name}.c")
    for source in (f"{name}.c", f"{name}_weights.c"):
        subprocess.run(
            ["cc", "-std=c99", *STRICT, "-c", f"./{source}", "-o", "x.o"], cwd=tmp_path, check=True
        )


def test_names_of_headers_of_the_c_library_are_refused(tmp_path: Path) -> None:
    source = model(tmp_path, dense())
    for save in (thinflow.convert, lambda path, to: thinflow.save(thinflow.load(path), to)):
        with pytest.raises(ParameterError, match=r"string\.h is a header of the C library") as refused:
            save(source, tmp_path / "string.c")
        assert refused.value.hint == "give another name: net_string.c"
    assert not (tmp_path / "string.h").exists()


def test_names_of_layers_end_no_comment() -> None:
    net = Layers(1, 4)
    net.dense(3).name = "a */ int x; /* ??/ \\ \x1b[2J\nb"
    assert "int x; / * ? ?/ / /x1b[2J/nb [1, 3]" in texts(net.content())["net.c"]
    assert comment("*/") == "* /"


def test_all_operators_without_a_form_are_told_at_once() -> None:
    net = Layers(1, 4, kind="float")
    net.unary("HASHTABLE_FIND")
    net.unary("STABLEHLO_OR")
    net.unary("SKIP_GRAM")
    net.unary("SKIP_GRAM")
    with pytest.raises(UnsupportedOp) as told:
        texts(net.content())
    assert "4 operators have no form in C: 1 x HASHTABLE_FIND ('hash" in str(told.value)
    assert "'): C has no such operator, as keys or values of LiteRT's tables are strings" in str(told.value)
    assert "1 x STABLEHLO_OR ('stablehlo_or_1'): C has no such operator; 2 x SKIP_GRAM" in str(told.value)
    assert "('skip_gram_2'): C has no such operator, as it reads and makes strings" in str(told.value)
    assert told.value.hint.startswith("did you mean 'STABLEHLO_PAD'? cut them off")
    assert "cut them off with --inputs or --outputs" in told.value.hint


def test_what_is_no_form_says_why() -> None:
    net = Layers(1, 4, 4, 2)
    net.conv(2, fused_activation_function="TANH")
    with pytest.raises(UnsupportedOp, match="the activation TANH has no form in C"):
        texts(net.content())


def test_sizes_that_are_open(tmp_path: Path) -> None:
    net = Layers(1, 8, 8, 2)
    net.conv(2)
    net.block.inputs[0].shape = (None, None, 8, 2)
    with pytest.raises(
        UnsupportedOp, match=r"the sizes of the input 'input_0' are open, \[\?,\?,8,2\]"
    ) as told:
        texts(net.content())
    assert told.value.hint == "give them: --shape input_0=1,SIZE,8,2"
    net.block.inputs[0].shape = (None, 8, 8, 2)
    assert "NET_INPUT_SIZE 128" in texts(net.content())["net.h"]


def test_nothing_is_written_where_it_cannot_be(tmp_path: Path) -> None:
    source = model(tmp_path, dense())
    with pytest.raises(WriteError, match="its folder does not exist"):
        thinflow.convert(source, tmp_path / "no" / "net.c", verify=False)
    (tmp_path / "net.c").mkdir()
    with pytest.raises(WriteError, match="this is a folder"):
        thinflow.convert(source, tmp_path / "net.c", verify=False)


def test_options_that_do_not_exist() -> None:
    with pytest.raises(ParameterError, match="there is no rounding 'xnpack'") as told:
        Options(rounding="xnpack")
    assert "xnnpack" in told.value.hint
    with pytest.raises(ParameterError, match="there is no processor 'cortex-m5'"):
        Options(cpu="cortex-m5")


def test_save_keeps_the_operators_of_a_file(tmp_path: Path) -> None:
    graph = formats.load(model(tmp_path, dense()))
    thinflow.save(graph, tmp_path / "saved.c")
    assert "FULLY_CONNECTED" in (tmp_path / "saved.c").read_text()


def test_all_nodes_are_named_that_litert_does_not_express(tmp_path: Path) -> None:
    graph = parse_graph(
        """
x = Placeholder() {dtype=float, shape=shape[1,8]}
first = Betainc(x, x, x) {T=float}
second = Igamma(first, x) {T=float}
third = Betainc(second, x, x) {T=float}
y = Relu(third) {T=float}
unread = Igammac(x, x) {T=float}
inputs: x
outputs: y
"""
    )
    with pytest.raises(UnsupportedOp) as told:
        thinflow.save(graph, tmp_path / "net.c")
    assert told.value.problem == (
        "3 operators have no form in C: 2 x Betainc ('first'): TFLite has no form of Betainc;"
        " 1 x Igamma ('second'): TFLite has no form of Igamma"
    )
    assert "--inputs or --outputs" in told.value.hint
    assert not list(tmp_path.iterdir())


def test_sizes_that_a_file_tells_wrong_are_those_that_litert_finds(tmp_path: Path) -> None:
    """Else more would be written than there is memory for."""
    net = Layers(1, 8, 8, 2)
    net.conv(2)
    net.unary("TANH")
    # Nobody looks at them in the file: LiteRT finds its own.
    for operator in net.block.operators:
        operator.outputs[0].shape = (1, 2, 2, 2)
    thinflow.convert(model(tmp_path, net.content()), tmp_path / "net.c", verify=False)
    assert "#define NET_OUTPUT_SIZE 128" in (tmp_path / "net.h").read_text()


@needs_compiler
@pytest.mark.parametrize("kind", ["int8", "uint8", "float"])
def test_a_large_sample_is_a_formula(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if these were megabytes.
    monkeypatch.setattr("thinflow.lower.c.sample.MOST", 64)
    monkeypatch.setattr("thinflow.lower.c.write.MOST", 64)
    net = Layers(1, 12, 12, 3, kind=kind)
    net.conv(5)
    thinflow.convert(model(tmp_path, net.content()), tmp_path / "net.c")
    text = (tmp_path / "net.c").read_text()
    assert "/* Every 12 of 720 numbers. */" in text
    assert "sample_input[432];" in text
    weights, main = tmp_path / "net_weights.c", "int main(void)\n{\n    return net_selftest();\n}\n"
    (tmp_path / "main.c").write_text(f'#include "net.h"\n{main}')
    built = ["cc", "-std=c99", *STRICT, "-DNET_SELFTEST", "main.c", "net.c", "net_weights.c", "-o", "test"]
    stored = weights.read_text()
    spoilt = "99.0" if kind == "float" else "999999"
    damaged = re.sub(r"(_bias\[\d+\] = {\n +)-?[\d.e-]+", rf"\g<1>{spoilt}", stored, count=1)
    for changed in (stored, damaged):
        weights.write_text(changed)
        subprocess.run([*built, "-lm"], cwd=tmp_path, check=True)
        found = subprocess.run([tmp_path / "test"], cwd=tmp_path).returncode
        assert (found > 0) == (changed != stored)
    assert changed != stored


def test_a_sample_of_the_users_is_answered_though_a_formula_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thinflow.lower.c.sample.MOST", 64)
    net = Layers(1, 6, 6, 3, kind="float")
    net.conv(2)
    content = net.content()
    made, ones = network(read_program(content), Options()), [np.ones((1, 6, 6, 3), np.float32)]
    samples = answers(content, made, ones)
    assert (samples[0].inputs[0] == 1).all()
    stored = self_test(made, samples, ones)
    assert stored is not None
    np.testing.assert_array_equal(stored.inputs[0], generated(made.block.inputs[0], 0))
    assert np.abs(stored.inputs[0]).max() <= 1
    assert stored.inputs[0].std() == pytest.approx(3**-0.5, rel=0.2)
