"""Values in C that have as many rows as the numbers say: memory for the most, a count, and LiteRT's rows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_answers import STRICT, differences
from tests.lower.c.many import Many, ints
from thinflow.api import convert_verified
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import BOOL, dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


class Counted(Many):
    """A network whose input is of whole numbers, some of them alike and some zero."""

    def __init__(self, *shape: int) -> None:
        super().__init__(*shape)
        self.x = self.last = Tensor("input", shape, dtype("int8"))
        self.block.inputs[:] = [self.x]
        few = self.add("FLOOR_MOD", [self.x, np.int8(6)], *shape, kind="int8")
        wide = self.add("CAST", [few], *shape, kind="int32")
        self.values = self.add("SUB", [wide, np.int32(3)], *shape, kind="int32")
        self.made.clear()

    def of(self, kind: str) -> Tensor:
        """The same as numbers of another type."""
        found = self.add("CAST", [self.values], *self.sizes(), kind=kind)
        self.made.remove(found)
        return found

    def where(self, kind: str = "int32") -> Tensor:
        return self.rows("WHERE", [self.of(kind)], len(self.sizes()), kind="int64")

    def rows(self, code: str, inputs: list[Any], *rest: int, kind: str, **options: Any) -> Tensor:
        return self.add(code, inputs, None, *rest, kind=kind, **options)  # type: ignore[arg-type]


def test_places_of_what_is_not_zero() -> None:
    net = Counted(4, 5, 3)
    for kind in ("float", "int32", "int64", "bool", "uint8", "int8", "uint32"):
        net.where(kind)
    assert differences(net.content(), runs=5) == []


def test_numbers_that_differ() -> None:
    net = Counted(40)
    for kind in ("float", "int8", "uint8", "int16", "int32", "int64"):
        for places in ("int32", "int64"):
            made = [Tensor(f"{kind}_{places}", (None,), dtype(kind)), Tensor("places", (40,), dtype(places))]
            net.block.operators.append(
                Operator("UNIQUE", [net.of(kind)], made, {"idx_out_type": dtype(places)})
            )
            net.made += made
    assert differences(net.content(), runs=5) == []


def row_by_row() -> Counted:
    """Places, numbers that stand there, and what is made of these."""
    net = Counted(6, 4)
    places = net.where()
    found = net.rows("GATHER_ND", [net.values, places], kind="int32")
    real = net.rows("CAST", [found], kind="float")
    net.rows("MUL", [real, np.float32(0.5)], kind="float")
    ends = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
    first = net.rows("STRIDED_SLICE", [places, ints(0, 0), ints(0, 1), ints(1, 1)], kind="int64", **ends)
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    net.rows("GATHER", [table, first], 2, kind="float", axis=0)
    column = net.rows("RESHAPE", [real, ints(-1, 1)], 1, kind="float", new_shape=[-1, 1])
    pairs = net.rows("CONCATENATION", [column, column], 2, kind="float", axis=1)
    net.rows("SUM", [pairs, ints(1)], kind="float", keep_dims=False)
    return net


def test_what_goes_row_by_row() -> None:
    assert differences(row_by_row().content(), runs=5) == []


def test_as_many_rows_as_are_wanted() -> None:
    net = Counted(6, 4)
    # From 1 to 4, those below zero, and more than there are rows; LiteRT shows no tensor without rows.
    total = net.add("SUM", [net.values, ints(0, 1)], kind="int32", keep_dims=False)
    wide = net.add("RESHAPE", [total, ints(1)], 1, kind="int32")
    few = net.add("ADD", [net.add("FLOOR_MOD", [wide, ints(4)], 1, kind="int32"), ints(1)], 1, kind="int32")
    below = net.add("SUB", [few, ints(5)], 1, kind="int32")
    more = net.add("MUL", [few, ints(3)], 1, kind="int32")
    flat = net.add("RESHAPE", [net.values, ints(24)], 24, kind="int32")
    net.rows("SLICE", [flat, ints(0), few], kind="int32")
    long = net.add("CAST", [few], 1, kind="int64")
    net.rows("SLICE", [flat, np.int64([0]), long], kind="int32")
    net.rows("STRIDED_SLICE", [flat, ints(0), below, ints(1)], kind="int32")
    both = net.add("CONCATENATION", [more, ints(0)], 2, kind="int32", axis=0)
    masks = {"begin_mask": 3, "end_mask": 2}
    net.rows("STRIDED_SLICE", [net.values, ints(0, 0), both, ints(1, 1)], 4, kind="int32", **masks)
    assert differences(net.content(), runs=12) == []


def test_sizes_that_only_a_run_tells_are_refused() -> None:
    net = Counted(6, 4)
    size = net.add(
        "CONCATENATION", [net.add("ARG_MAX", [net.x, ints(0)], 4, kind="int32")], 4, kind="int32", axis=0
    )
    two = net.add("SLICE", [size, ints(0), ints(2)], 2, kind="int32")
    net.rows("SLICE", [net.values, ints(0, 0), two], None, kind="int32")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedOp, match=r"\(SLICE\) follow from what is computed"):
        network(read_program(net.content()), Options())


def test_outputs_that_are_constants_are_written() -> None:
    net = Counted(6, 4)
    net.add("SHAPE", [net.values], 2, kind="int32", out_type=dtype("int32"))
    net.add("SQUARE", [net.of("float")], 6, 4, kind="float")
    net.made.append(net.constant("always", np.float32([1, -3])))
    assert differences(net.content()) == []


@pytest.mark.parametrize("code", ["SUM", "SHAPE", "REVERSE_V2", "TRANSPOSE"])
def test_what_mixes_rows_is_refused(code: str) -> None:
    net = Counted(6, 4)
    places = net.where()
    inputs = [places] if code == "SHAPE" else [places, ints(0) if code != "TRANSPOSE" else ints(1, 0)]
    net.rows(code, inputs, kind="int32" if code == "SHAPE" else "int64")
    with pytest.raises(UnsupportedOp, match=f"up to a count, and {code} does not go row by row") as refused:
        network(read_program(net.content()), Options())
    assert "--outputs" in str(refused.value.hint)


def test_branches_that_give_counted_rows_are_refused() -> None:
    net = Counted(6, 4)
    places, flag = net.where(), Tensor("flag", (), dtype("bool"))
    sides = []
    for name, code in (("then", "NEG"), ("else", "SQUARE")):
        x, y = (Tensor(f"{name}_{end}", (None, 2), dtype("int64")) for end in "xy")
        sides.append(Subgraph([x], [y], [Operator(code, [x], [y])], name))
    out = Tensor("out", (None, 2), dtype("int64"))
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    net.block.operators.append(Operator("IF", [flag, places], [out], options))
    net.block.inputs.append(flag)
    net.block.outputs[:] = [out]
    content = to_bytes(Program([net.block, *sides]))
    with pytest.raises(UnsupportedOp, match="up to a count, and IF does not go row by row"):
        network(read_program(content), Options())


def test_headers_tell_of_counts(tmp_path: Path) -> None:
    net = Counted(6, 4)
    net.where()
    header = Writer(network(read_program(net.content()), Options()), "net").files()["net.h"]
    assert "int64_t [24, 2], of which so many rows are in use as count says */" in header
    assert "void net_run(const int8_t *input, int64_t *output, int32_t *count);" in header
    # The self-test knows what stands behind them, too.
    (tmp_path / "net.tflite").write_bytes(net.content())
    made = convert_verified(tmp_path / "net.tflite", tmp_path / "net.c")
    assert "every number is equal" in made.proof
    (tmp_path / "main.c").write_text('#include "net.h"\nint main(void) { return (int)net_selftest(); }\n')
    sources = ["net.c", "net_weights.c", "main.c"]
    command = [str(compiler()), "-std=c99", *STRICT, "-DNET_SELFTEST", *sources, "-lm", "-o", "selftest"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./selftest"], cwd=tmp_path, check=True)


def test_as_an_engine(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(row_by_row().content())
    x = np.random.default_rng(0).integers(-128, 128, (6, 4)).astype(np.int8)
    by_engine = []
    for engine in ("c", "litert"):
        session = thinflow.Session(tmp_path / "net.tflite", engine=engine)
        by_engine.append(session.run(None, {"input": x}))
    for got, wanted in zip(*by_engine, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_graphs_leave_rows_that_are_read_to_the_interpreter() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": BOOL, "shape": ShapeAttr((3, 4))}).output()
    places = graph.add("Where", [x], "places").output()
    graph.outputs = [graph.add("Shape", [places], "rows").output()]
    fed = np.eye(3, 4, dtype=bool)
    session = thinflow.Session(graph, engine="c")
    (rows,) = session.run(["rows"], {"x": fed})
    assert rows.tolist() == [3, 2]
    assert session.placement["places"] == "reference"
