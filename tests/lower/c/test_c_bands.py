"""Layers that run a few rows at a time answer as whole ones do, to the last bit, in less memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.c.boards import BOARDS, missing, run_on
from benchmarks.c.linux import MACHINES, run_on_linux
from tests.lower.c.c_answers import STRICT, differences, fed_and_wanted, made_up
from tests.lower.c.c_networks import Layers
from tests.night import AT_NIGHT, some
from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.errors import ParameterError
from thinflow.ir.types import INT32
from thinflow.lower.c.bands import Chain
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Bands, Options
from thinflow.lower.c.plan import alive_bytes
from thinflow.lower.c.reach import Reach, reaches
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
_QUICK = ("-std=c99", "-O1", "-fPIC", "-shared", "-ffp-contract=off", *STRICT)


def made(content: bytes, **options: object) -> Network:
    return network(read_program(content), Options(**options))  # type: ignore[arg-type]


def tall(kind: str, seed: int = 0) -> bytes:
    """A network whose first pictures are large: a residual block, pools, pads, steps, dilation."""
    net = Layers(1, 21, 10, 3, kind=kind, seed=seed)
    net.conv(6, step=2, fused_activation_function="RELU")
    net.depthwise(1)
    short = net.conv(8, window=1)
    net.conv(16, window=1, fused_activation_function="RELU6")
    net.depthwise(1, dilation_h_factor=2, dilation_w_factor=2)
    net.last = net.conv(8, window=1)
    net.binary("ADD", short, net.last)
    net.padded((1, 2, 1, 1))
    net.pool("MAX_POOL_2D", 3, 2)
    net.unary("LOGISTIC")
    net.pool("AVERAGE_POOL_2D", 2, 1, "SAME")
    net.conv(5, padding="VALID")
    net.mean()
    net.dense(4)
    return net.content()


def answers(network: Network, feeds: list[list[np.ndarray]]) -> list[bytes]:
    library = Library(network, Writer(network, "net").files(), "net", _QUICK)
    return [b"".join(y.tobytes() for y in library.run(feed)) for feed in feeds]


def alike(content: bytes, bands: tuple[Bands, ...], **options: object) -> bool:
    """Whether a network in bands answers as with whole layers."""
    whole, parts = made(content, bands=(), **options), made(content, bands=bands, **options)
    rng = np.random.default_rng(0)
    feeds = [[made_up(t, rng) for t in whole.block.inputs] for _ in range(2)]
    return answers(whole, feeds) == answers(parts, feeds)


# --- rows of rows -----------------------------------------------------------------------------------------


def test_the_rows_that_a_window_needs() -> None:
    reach = Reach(stride=2, rows=3, before=1)
    assert reach.needed(0, 1, 10) == (0, 2)
    assert reach.needed(1, 3, 10) == (1, 6)
    assert reach.needed(4, 5, 10) == (7, 10)
    assert [reach.ready(have, 10, 5) for have in (0, 1, 2, 4, 6, 9, 10)] == [0, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_eager", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_every_row_is_made_once_and_of_what_is_there(rows: int, is_eager: bool) -> None:
    block = made(tall("int8")).block
    chain = Chain(block, 0, 12)
    done = [0] * 12
    for turns in chain.turns(rows, is_eager):
        for round in range(turns.count):
            for number, work in enumerate(turns.turn.works):
                first, step = turns.outputs[number]
                assert first + round * step == done[number]
                if work is None:
                    continue
                done[number] += work.rows
                for read in work.reads:
                    low, high = chain.reaches[number][read.number].needed(
                        first + round * step, done[number], chain.input_height(number, read.number)
                    )
                    assert high - low == read.rows
                    maker = chain.maker(number, read.number)
                    assert maker is None or high <= done[maker]
    # Rows that no window reaches are not made at all.
    assert done[-1] == chain.heights[-1]
    assert all(n <= height for n, height in zip(done, chain.heights, strict=True))


def test_what_is_made_of_all_rows_is_in_no_chain() -> None:
    block = made(tall("int8")).block
    assert [o.code for o in block.operators if reaches(o) is None] == ["MEAN", "FULLY_CONNECTED"]
    with pytest.raises(ValueError, match="few rows"):
        Chain(block, 10, 13)


# --- answers ----------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "is_eager"), some([(k, e) for e in (False, True) for k in ("int8", "uint8", "float")], 2)
)
def test_a_chain_of_all_kinds_of_layers(kind: str, is_eager: bool) -> None:
    for rows in (1, 2):
        assert alike(tall(kind), (Bands(0, 12, rows, is_eager),))
    assert alike(tall(kind), (Bands(0, 3, 4), Bands(4, 9, 1, is_eager)), rounding="xnnpack")


@st.composite
def cases(draw: st.DrawFn) -> tuple[bytes, tuple[Bands, ...]]:
    """Small networks of layers that go by rows, and a chain in them."""
    kind = draw(st.sampled_from(["int8", "float"]))
    size = st.integers(6, 14)
    net = Layers(
        1,
        draw(size),
        draw(st.integers(3, 6)),
        draw(st.integers(1, 4)),
        kind=kind,
        seed=draw(st.integers(0, 99)),
    )
    values = [net.last]
    for _ in range(draw(st.integers(2, 6))):
        layer = draw(st.sampled_from(["conv", "conv", "depthwise", "pool", "add", "pad", "function"]))
        window, step = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        padding = draw(st.sampled_from(["SAME", "VALID"])) if min(net.sizes()[1:3]) > 3 else "SAME"
        others = [v for v in values if v.shape == net.last.shape]
        if layer == "conv":
            net.conv(draw(st.integers(1, 6)), window, step, padding)
        elif layer == "depthwise":
            net.depthwise(draw(st.integers(1, 2)), window, step, padding)
        elif layer == "pool":
            net.pool(draw(st.sampled_from(["MAX_POOL_2D", "AVERAGE_POOL_2D"])), window, step, padding)
        elif layer == "add":
            net.binary("ADD", draw(st.sampled_from(others)), net.last)
        elif layer == "pad":
            net.padded(draw(st.tuples(*[st.integers(0, 2)] * 4)))
        else:
            net.unary("TANH")
        values.append(net.last)
    content = net.content()
    count = len(read_program(content).subgraphs[0].operators)
    start = draw(st.integers(0, count - 2))
    bands = Bands(start, draw(st.integers(start + 2, count)), draw(st.integers(1, 4)), draw(st.booleans()))
    return content, (bands,)


@needs_compiler
@pytest.mark.slow
@settings(max_examples=40 if AT_NIGHT else 16, deadline=None)
@given(cases())
def test_random_chains(case: tuple[bytes, tuple[Bands, ...]]) -> None:
    content, bands = case
    assert alike(content, bands)


@needs_compiler
@pytest.mark.parametrize("name", ["mlperf_kws_ref", "mlperf_resnet_quant", "mlperf_vww_96_int8"])
def test_networks_that_people_use(name: str, shared: Path) -> None:
    content = (shared / "zoo" / "tflite" / f"{name}.tflite").read_bytes()
    assert alike(content, (Bands(0, 8, 2), Bands(8, 9, 1)))


@needs_compiler
def test_every_layer_beside_litert() -> None:
    """The proof of each layer looks at bands, too: all rows are kept then."""
    assert differences(tall("int8"), bands=(Bands(0, 12, 2),)) == []


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "float"])
def test_sanitizers_find_nothing(kind: str, tmp_path: Path) -> None:
    parts = made(tall(kind), bands=(Bands(0, 12, 2, True),))
    for name, text in Writer(parts, "net").files().items():
        (tmp_path / name).write_text(text)
    (x,), (y,) = parts.block.inputs, parts.block.outputs
    # The arena ends where memory does that may be touched.
    (tmp_path / "main.c").write_text(
        '#include <stdlib.h>\n#include "net.h"\n'
        f"int main(void)\n{{\n    void *arena = malloc(NET_ARENA_BYTES), *x = calloc(1, {x.size_bytes}),"
        f" *y = malloc({y.size_bytes});\n    net_run_in(arena, x, y);\n"
        "    free(arena);\n    free(x);\n    free(y);\n    return 0;\n}\n"
    )
    flags = ["-std=c99", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [compiler() or "cc", *flags, "main.c", "net.c", "net_weights.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True, env={"ASAN_OPTIONS": "detect_leaks=0"})


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("cpu", [c for c in processors_here() if c != "generic"])
def test_kernels_of_this_machine(cpu: str) -> None:
    assert alike(tall("int8"), (Bands(0, 12, 2),), cpu=cpu)


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_on_boards(cpu: str, tmp_path: Path) -> None:
    content = tall("int8")
    feeds, wanted = fed_and_wanted(content)
    parts = made(content, cpu=cpu, bands=(Bands(0, 12, 2),))
    raw, files = feeds.reshape(len(feeds), -1).view(np.uint8), Writer(parts, "net").files()
    run = run_on(BOARDS[cpu], files, "net", raw, wanted[0].nbytes, tmp_path)
    np.testing.assert_array_equal(run.answers.view(wanted.dtype).reshape(wanted.shape), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a76"])
def test_on_larger_arm(name: str, tmp_path: Path) -> None:
    machine = MACHINES[name]
    if machine.missing() is not None:
        pytest.skip(str(machine.missing()))
    content = tall("int8")
    feeds, wanted = fed_and_wanted(content)
    parts = made(content, cpu=name, bands=(Bands(0, 12, 2, True),))
    raw, files = feeds.reshape(len(feeds), -1).view(np.uint8), Writer(parts, "net").files()
    run = run_on_linux(machine, files, "net", raw, wanted[0].nbytes, tmp_path, is_counted=False)
    np.testing.assert_array_equal(run.answers.view(wanted.dtype).reshape(wanted.shape), wanted)


# --- schedules --------------------------------------------------------------------------------------------


def test_what_fits_stays_as_it_is() -> None:
    content = tall("int8")
    whole = made(content)
    asked = made(content, ram=whole.ram_bytes)
    assert asked.bands == ()
    assert Writer(asked, "net").files() == Writer(whole, "net").files()


@pytest.mark.parametrize("cpu", some(["generic", "cortex-m4", "cortex-m55", "x86-64-v4"], 2))
def test_less_memory_down_to_the_least(cpu: str) -> None:
    content = tall("int8")
    whole = made(content, cpu=cpu)
    with pytest.raises(ParameterError, match="the least is") as refused:
        made(content, cpu=cpu, ram=100)
    least = int(refused.value.problem.split("the least is ")[1].split(", arena")[0].replace(",", ""))
    assert least < whole.ram_bytes
    assert "most is taken at" in refused.value.problem
    for ram in (whole.ram_bytes - 8, least):
        parts = made(content, cpu=cpu, ram=ram)
        assert parts.bands
        assert parts.ram_bytes <= ram
        # Nothing is computed twice, and bands share their weights.
        assert parts.macs == whole.macs
        assert parts.weights_bytes < 1.05 * whole.weights_bytes
    with pytest.raises(ParameterError):
        made(content, cpu=cpu, ram=least - 65)


def test_the_stack_is_a_part_of_it() -> None:
    content = tall("int8")
    enough = made(content).ram_bytes
    assert made(content, ram=enough, stack=0).bands == ()
    assert made(content, ram=enough, stack=8).bands
    with pytest.raises(ParameterError, match="and stack 5,000"):
        made(content, ram=enough, stack=5000)


def test_places_leave_no_gaps_where_most_is_alive(shared: Path) -> None:
    content = (shared / "zoo" / "tflite" / "mlperf_vww_96_int8.tflite").read_bytes()
    parts = made(content, cpu="cortex-m4", bands=(Bands(0, 8, 1),))
    assert parts.plan.arena_bytes == max(alive_bytes(parts.plan, parts.layers))
    assert parts.plan.arena_bytes < made(content, cpu="cortex-m4").plan.arena_bytes / 3


def test_what_goes_from_input_to_output_is_copied_once_whatever_schedules_were_tried() -> None:
    net = Layers(1, 40, 40, 3)
    net.conv(8)
    net.conv(8, step=2)
    flat = Tensor("flat", (4800,), net.block.inputs[0].dtype, None, net.block.inputs[0].quantization)
    sizes = Tensor("sizes", (1,), INT32, np.int32([4800]))
    net.block.operators.append(Operator("RESHAPE", [net.block.inputs[0], sizes], [flat]))
    net.block.outputs[:] = [net.last, flat]
    content = to_bytes(Program([net.block]))
    least = made(content, ram=1 << 20)
    (layer,) = [one for one in least.layers if one.operator.code == "RESHAPE"]
    assert len(layer.calls) == 1
