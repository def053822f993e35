"""Layers beside each other, as the proof of plain C runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lower.c.c_networks import Layers
from thinflow.engines._c_library import compiler
from thinflow.ir.types import FLOAT, dtype
from thinflow.lower.c.convert import Network
from thinflow.lower.c.options import Options
from thinflow.lower.c.sample import Sample
from thinflow.optimize import c_conversion
from thinflow.optimize.c_answers import as_fed
from thinflow.optimize.c_conversion import convert_to_c, difference
from thinflow.optimize.c_layer_proof import left_out, side_by_side
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.typing import Array


def chain(length: int) -> Subgraph:
    """x + x, and so on."""
    last = Tensor("x", (2,), FLOAT)
    block = Subgraph([last], [])
    for number in range(length):
        y = Tensor(f"y{number}", (2,), FLOAT)
        other = Tensor(f"a{number}", (2,), FLOAT)
        block.inputs.append(other)
        block.operators.append(Operator("ADD", [last, other], [y]))
        last = y
    block.outputs.append(last)
    return block


def test_a_long_network_takes_several_programs_of_as_many_ends_as_can_be_passed() -> None:
    programs = [part.program.subgraphs[0] for part in side_by_side(chain(700))]
    ends = [len(block.inputs) + len(block.outputs) for block in programs]
    assert max(ends) <= 1000
    assert sum(ends) == 3 * 700
    assert len(ends) == 3
    made = [t.name for block in programs for t in block.outputs]
    assert made == [f"{n}/made/y{n}" for n in range(700)]


def test_a_short_one_takes_one() -> None:
    assert len(list(side_by_side(chain(3)))) == 1
    assert list(side_by_side(chain(0))) == []


@pytest.mark.parametrize(
    ("got", "wanted", "error"),
    [
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([np.inf, 2.0], [np.inf, 4.0], 0.5),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [1.0, np.nan], np.inf),
        ([], [], 0.0),
    ],
)
def test_what_is_no_number_in_both_is_no_difference(
    got: list[float], wanted: list[float], error: float
) -> None:
    assert difference(np.array(got, np.float32), np.array(wanted, np.float32)) == error


def test_a_proof_says_where_there_were_no_numbers_to_compare(tmp_path: Path) -> None:
    """Made-up inputs are negative, too."""
    if compiler() is None:
        pytest.skip("no C compiler")
    x, y, z = (Tensor(name, (8,), FLOAT) for name in "xyz")
    block = Subgraph([x], [y, z], [Operator("SQRT", [x], [y]), Operator("ABS", [x], [z])])
    made = convert_to_c(Program([block]), tmp_path / "m.c", Options())
    assert made.proof.endswith("every number is equal; both give NaN in 'y', where equal says nothing")


def counting_loop(codes: list[str]) -> Program:
    """x rounded to bytes and multiplied three times over, with other operators in the loop."""
    rng = np.random.default_rng(0)
    int32, boolean = dtype("int32"), dtype("bool")

    def scalar(name: str, value: int | None = None) -> Tensor:
        return Tensor(name, (), int32, None if value is None else np.array(value, np.int32))

    w = rng.integers(-127, 128, (8, 8)).astype(np.int8)
    weights = Tensor("w", w.shape, dtype("int8"), w, Quantization(np.float32([0.002]), np.int64([0])))
    x, y = Tensor("x", (1, 8), FLOAT), Tensor("y", (1, 8), FLOAT)
    n, before = scalar("n"), Tensor("before", (1, 8), FLOAT)
    fewer = Tensor("fewer", (), boolean)
    condition = Subgraph([n, before], [fewer], [Operator("LESS", [n, scalar("three", 3)], [fewer])])
    m, last, next_one = scalar("m"), Tensor("last", (1, 8), FLOAT), scalar("next")
    steps = [Operator("ADD", [m, scalar("one", 1)], [next_one])]
    dense = Tensor("dense", (1, 8), FLOAT)
    steps.append(
        Operator("FULLY_CONNECTED", [last, weights, None], [dense], {"asymmetric_quantize_inputs": True})
    )
    for number, code in enumerate(codes):
        made = Tensor(f"step{number}", (1, 8), FLOAT)
        steps.append(Operator(code, [dense], [made]))
        dense = made
    body = Subgraph([m, last], [next_one, dense], steps)
    loop = Operator(
        "WHILE",
        [scalar("zero", 0), x],
        [scalar("times"), y],
        {"cond_subgraph_index": 1, "body_subgraph_index": 2},
    )
    return Program([Subgraph([x], [y], [loop]), condition, body])


def test_a_proof_names_what_cannot_be_by_itself_and_tells_of_the_whole(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    made = convert_to_c(counting_loop(["TANH"]), tmp_path / "m.c", Options())
    assert made.proof == (
        "layer by layer, as reals are rounded to integers on the way: compiled and run beside LiteRT on"
        " 3 made-up inputs: every number is equal; not by themselves: 1 WHILE; as a whole 3 of 3 answers are"
        " LiteRT's"
    )


def test_one_operator_that_the_reference_kernels_lack_keeps_no_other_from_being_compared(
    tmp_path: Path,
) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    net = Layers(1, 5, 6, 4)
    net.conv(12, 3)
    net.emit("DEPTH_TO_SPACE", [net.last], net.alike("wide", (1, 10, 12, 3)), block_size=2)
    made = convert_to_c(read_program(net.content()), tmp_path / "m.c", Options())
    assert made.proof == (
        "layer by layer, as LiteRT does not run the whole so: compiled and run beside LiteRT on 3"
        " made-up inputs: every number is equal"
    )


def test_a_layer_that_litert_lacks_is_named_and_the_others_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    compared, answers = [], c_conversion.answers

    def without_tanh(content: bytes, made: Network, first: list[Array] | None = None) -> list[Sample]:
        codes = [o.code for o in made.block.operators]
        if "TANH" in codes:
            return []
        compared.extend(codes)
        return answers(content, made, first)

    monkeypatch.setattr(c_conversion, "answers", without_tanh)
    made = convert_to_c(counting_loop(["ABS", "TANH", "NEG", "EXP"]), tmp_path / "m.c", Options())
    assert "; not compared, as LiteRT does not run them: 1 TANH; not by themselves: 1 WHILE" in made.proof
    assert sorted(compared) == ["ABS", "ADD", "EXP", "FULLY_CONNECTED", "LESS", "NEG"]


def test_variables_are_told_and_states_of_recurrent_layers_stay_with_them() -> None:
    x, y, z = (Tensor(name, (1, 2), FLOAT) for name in "xyz")
    state = Tensor("state", (1, 2), FLOAT, is_variable=True)
    lstm = Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, state], [y])
    kept = [Operator("READ_VARIABLE", [], [z]), Operator("ASSIGN_VARIABLE", [y], [])]
    block = Subgraph([x], [y], [*kept[:1], lstm, *kept[1:]])
    assert left_out(block) == "1 READ_VARIABLE, 1 ASSIGN_VARIABLE"
    (part,) = side_by_side(block)
    (alone,) = part.program.subgraphs[0].operators
    assert [t.name for t in part.program.subgraphs[0].inputs] == ["1/x"]
    assert [t is not None and t.is_variable for t in alone.inputs] == [False, True]


def test_each_network_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    made: list[Options] = []
    network = c_conversion.network

    def counted(program: Program, options: Options) -> Network:
        made.append(options)
        return network(program, options)

    monkeypatch.setattr(c_conversion, "network", counted)
    x = Tensor("x", (1, 40, 16, 8), FLOAT)
    steps, last = [], x
    for number in range(3):
        y = Tensor(f"y{number}", (1, 40 - 2 * number - 2, 16 - 2 * number - 2, 8), FLOAT)
        w = Tensor(f"w{number}", (8, 3, 3, 8), FLOAT, np.full((8, 3, 3, 8), 0.01, np.float32))
        # LiteRT runs none without a bias.
        bias = Tensor(f"b{number}", (8,), FLOAT, np.zeros(8, np.float32))
        options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
        steps.append(Operator("CONV_2D", [last, w, bias], [y], options))
        last = y
    pooled = Tensor("pooled", (1, 8), FLOAT)
    axes = Tensor("axes", (2,), dtype("int32"), np.array([1, 2], np.int32))
    steps.append(Operator("MEAN", [last, axes], [pooled]))
    given = Program([Subgraph([x], [pooled], steps)])
    files = convert_to_c(given, tmp_path / "m.c", Options(cpu="cortex-m4", ram=38_000))
    assert files.proof.endswith("; in bands of rows every bit is as with whole layers, in portable C")
    # Once for each stack that is reckoned with: a compiler for the processor may tell another than expected.
    tried = [options.stack for options in made if options.ram is not None]
    assert 1 <= len(tried) == len(set(tried))
    # Whole on the Cortex-M4, to see whether that fits; and both ways in portable C.
    assert [(o.cpu, bool(o.bands)) for o in made if o.ram is None] == [
        ("cortex-m4", False),
        ("generic", True),
        ("generic", False),
    ]


def test_a_table_of_one_row_is_asked_for_that_row_alone(tmp_path: Path) -> None:
    """What counts rows is computed, and made up where the layer is by itself."""
    if compiler() is None:
        pytest.skip("no C compiler")
    x, number = Tensor("x", (1, 1), FLOAT), Tensor("number", (1,), dtype("int64"))
    table = Tensor("table", (1, 3), FLOAT, np.ones((1, 3), np.float32))
    axis = Tensor("axis", (), dtype("int32"), np.array(0, np.int32))
    found, codes = Tensor("found", (1, 3), FLOAT), Tensor("codes", (1, 3), dtype("int8"))
    codes.quantization = Quantization(np.float32([1.0]), np.int64([0]))
    operators = [
        Operator("ARG_MAX", [x, axis], [number], {"output_type": dtype("int64")}),
        Operator("GATHER", [table, number], [found], {"axis": 0}),
        Operator("QUANTIZE", [found], [codes]),
    ]
    made = convert_to_c(Program([Subgraph([x], [codes], operators)]), tmp_path / "m.c", Options())
    assert "every number is equal" in made.proof
    assert "not compared" not in made.proof


def test_floats_are_fed_as_they_are_though_a_range_stands_beside_them() -> None:
    value = np.float32([[1, 2]])
    for scale in ([], [0.5]):
        grid = Quantization(np.float32(scale), np.int64([0] * len(scale)))
        assert as_fed(value, Tensor("x", (1, 2), FLOAT, None, grid), np.float32) is value
