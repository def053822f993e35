"""What compares networks in C with LiteRT elsewhere notices what differs, and where each value is from."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.c.elsewhere import PLACES, Place, Played, played
from benchmarks.c.exact_page import PAGE, entered
from benchmarks.c.linux import Machine
from benchmarks.c.reference import Answers, Runs
from tests.lower.c.c_answers import made_up
from tests.lower.c.c_networks import Layers
from tests.lower.c.many import Many
from thinflow.engines._c_library import compiler
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.reader import read_program

HERE = Place("generic", Machine(compiler() or "cc", "", (), ""))
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def tiled() -> bytes:
    """Convolutions around an operator that LiteRT has no reference kernel for."""
    net = Layers(1, 5, 5, 4)
    net.weighted("CONV_2D", (6, 3, 3, 4), 0, (1, 5, 5, 6), padding="SAME", stride_h=1, stride_w=1)
    times = net.constant("times", np.int32([1, 2, 1, 1]))
    net.emit("TILE", [net.last, times], net.alike("tiled", (1, 10, 5, 6)))
    net.weighted("CONV_2D", (3, 1, 1, 6), 0, (1, 10, 5, 3), padding="SAME", stride_h=1, stride_w=1)
    return net.content()


def test_what_has_no_reference_kernel_leaves_the_rest_to_the_reference() -> None:
    content = tiled()
    program = read_program(content)
    answers = Answers(program, content, "litert")
    assert dict(answers.others) == {"TILE": 1}
    assert len(answers.stages) == 3
    values = answers.of([np.zeros((1, 5, 5, 4), np.int8)])
    conv, tile, last = (o.outputs[0] for o in program.subgraphs[0].operators)
    np.testing.assert_array_equal(values[tile], np.tile(values[conv], (1, 2, 1, 1)))
    np.testing.assert_array_equal(answers.outputs()[0], values[last])


@needs_compiler
def test_sums_are_of_every_layer_though_memory_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "tiled.tflite"
    path.write_bytes(tiled())
    known, program = Runs(path, "litert"), read_program(tiled())
    tensors = [t for t in program.subgraphs[0].tensors() if not t.is_constant]
    numbers = [n for n, t in enumerate(program.subgraphs[0].tensors()) if not t.is_constant]
    made = network(program, Options(keep_all=True))
    rng = np.random.default_rng(0)
    feeds = [[made_up(made.block.inputs[0], rng)] for _ in range(4)]
    sums, _ = played(made, HERE, feeds, tensors, [], 2, 60.0)
    wanted = [[known.of(n, feed)[number].sum for number in numbers] for n, feed in enumerate(feeds)]
    np.testing.assert_array_equal(sums, wanted)
    assert len({*sums[:, -1]}) == 4


@needs_compiler
@pytest.mark.parametrize("where", ["here", "cortex-m4"])
def test_a_network_that_keeps_running_answers_input_by_input(where: str) -> None:
    place = HERE if where == "here" else PLACES[where]
    if why := place.machine.missing():
        pytest.skip(why)
    net = Many(2, 3, kind="int32")
    net.add("ADD", [net.x, np.int32([1, 2, 3])], 2, 3)
    net.add("RESHAPE", [net.x, np.int32([6])], 6)
    with ExitStack() as stack:
        runner = Played(network(read_program(net.content()), Options(cpu=place.cpu)), place, stack)
        for start in (0, 100):
            x = np.arange(start, start + 6, dtype=np.int32).reshape(2, 3)
            added, flat = runner.run([x])
            np.testing.assert_array_equal(added, np.add(x, [1, 2, 3]))
            np.testing.assert_array_equal(flat, x.reshape(-1))


def test_what_a_board_has_no_memory_for_runs_on_a_larger_one_or_is_told() -> None:
    place = PLACES["cortex-m0"]
    if why := place.machine.missing():
        pytest.skip(why)
    start = tuple(s.replace("ROOM_BYTES=16777216", "ROOM_BYTES=1024") for s in place.machine.start)
    small = replace(place, machine=replace(place.machine, start=start), larger=None)
    net = Many(4, kind="int32")
    net.add("ABS", [net.x], 4)
    made = network(read_program(net.content()), Options())
    with pytest.raises(RuntimeError, match="more memory than the board has"):
        played(made, small, [[np.zeros(4, np.int32)]], [], made.block.outputs, 1, 1.0)
    x = np.int32([1, -2, 3, -4])
    larger = replace(small, larger=place.larger)
    _, (found,) = played(made, larger, [[x]], [], made.block.outputs, 1, 1.0)
    np.testing.assert_array_equal(found[0], abs(x))


def test_a_line_is_entered_in_its_cell_and_others_stay() -> None:
    page = PAGE.read_text("utf-8")
    for place, verdict in (("cortex-m0", "exact"), ("armhf", "2 DIFFER: a")):
        page = entered(page, ("new_int8", "litert", place, "12, speech", "3", verdict))
    page = entered(page, ("new_float", "litert", "x86-64", "7, made up", "3", "exact; reals off by 2e-07"))
    rows = [line for line in page.splitlines() if "new_" in line]
    assert rows == [
        "| new_int8 | speech |  | 12 |  |  |  |  |  | **2 DIFFER: a** |  |",
        "| new_float | made up |  |  |  |  |  |  |  |  | 7: 2e-07 |",
    ]
    for line in PAGE.read_text("utf-8").splitlines():
        assert line in page
