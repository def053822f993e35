"""Layers beside each other, as the proof of plain C runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thinflow.engines._c_library import compiler
from thinflow.ir.types import FLOAT
from thinflow.lower.c.options import Options
from thinflow.optimize.c_conversion import convert_to_c, difference
from thinflow.optimize.c_layer_proof import side_by_side
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor


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
