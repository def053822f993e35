"""Tables and windows in C, and the operators of StableHLO that LiteRT has kernels for, answer as these do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many, ints
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Operator, Tensor
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def longs(*numbers: int) -> Any:
    return np.int64(numbers)


def test_tables_by_key() -> None:
    net = Many(1, 3)
    keys = net.value("keys", (9,), "int32")
    # The inputs are numbers below 100, of which some are keys.
    table = np.int32(sorted(np.random.default_rng(0).permutation(100)[:40]))
    for kind, shape in (("float", (40, 3)), ("int8", (40,)), ("int64", (40, 2, 2))):
        held = np.arange(np.prod(shape)).reshape(shape).astype(dtype(kind).numpy())
        made = [
            Tensor(f"y_{kind}", (9, *shape[1:]), dtype(kind)),
            Tensor(f"hits_{kind}", (9,), dtype("uint8")),
        ]
        read = [keys, net.constant(f"keys_{kind}", table), net.constant(f"held_{kind}", held)]
        net.block.operators.append(Operator("HASHTABLE_LOOKUP", read, made))
        net.made += made
    net.add("ABS", [net.x], 1, 3)
    assert differences(net.content(), runs=6) == []


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_rows_of_a_table_together(rank: int) -> None:
    net = Many(7, 2, 3)
    weights = net.value("weights", (9,), "float")
    rng = np.random.default_rng(rank)
    ids = rng.integers(0, 7, 9).astype(np.int32)
    # Sorted, some places without anything, the first of them among those.
    sizes = (2, 4, 5)[3 - rank :]
    places = np.sort(rng.permutation(np.prod(sizes) - 1)[:9] + 1) if rank > 1 else np.arange(9) % 5
    where = np.stack(np.unravel_index(places[:9] if rank > 1 else np.sort(places), sizes), 1).astype(np.int32)
    if len(where) < 9:
        where = np.concatenate([where, where[-1:].repeat(9 - len(where), 0)])
    for combiner in ("SUM", "MEAN", "SQRTN"):
        read = [ids, where, np.int32(sizes), weights, net.x]
        shape = (*sizes[:-1], 2, 3)
        net.add("EMBEDDING_LOOKUP_SPARSE", read, *shape, kind="float", combiner=combiner)
        # Files need not tell sizes.
        net.block.operators[-1].outputs[0].shape = (*[None] * len(sizes[:-1]), 2, 3)
    assert differences(net.content(), runs=3) == []


WINDOWS = [((2, 3, 1), (1, 2, 1), (1, 1, 1)), ((1, 2, 2), (2, 1, 3), (1, 3, 1))]


@pytest.mark.parametrize("kind", ["float", "int8", "uint8", "int16", "int32", "int64"])
def test_windows(kind: str) -> None:
    net = Many(3, 8, 4, kind=kind)
    for functions in ("ADD", "MUL", "MINIMUM", "MAXIMUM"):
        for window, strides, dilations in WINDOWS:
            sizes = zip((3, 8, 4), window, strides, dilations, strict=True)
            out = [(n - (w - 1) * d - 1) // s + 1 for n, w, s, d in sizes]
            first = np.array(3, dtype(kind).numpy())
            read = [net.x, first, *(longs(*n) for n in (window, strides, dilations))]
            net.add("REDUCE_WINDOW", read, *out, kind=kind, reduce_function=functions)
    assert differences(net.content()) == []


def test_windows_of_truths() -> None:
    net = Many(3, 8, 4, kind="bool")
    for function in ("ALL", "ANY"):
        read = [net.x, np.array(function == "ALL"), longs(1, 2, 2), longs(1, 1, 1), longs(1, 1, 1)]
        net.add("REDUCE_WINDOW", read, 3, 7, 3, kind="bool", reduce_function=function)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["float", "int8", "int16", "int32", "int64", "bool"])
def test_two_numbers_by_stablehlo(kind: str) -> None:
    net = Many(3, 40, kind=kind)
    other = net.value("other", (3, 40))
    codes = ["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"] if kind != "bool" else []
    codes += ["AND"] if kind != "float" else []
    for code in codes:
        net.add(f"STABLEHLO_{code}", [net.x, other], 3, 40)
    if kind in ("int8", "int16", "int32"):
        few = np.arange(120).reshape(3, 40).astype(kind) % (np.iinfo(kind).bits - 1)
        net.add("STABLEHLO_SHIFT_LEFT", [net.x, few.astype(kind)], 3, 40)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["float", "int32", "bool"])
def test_pads_by_stablehlo(kind: str) -> None:
    net = Many(4, 6, kind=kind)
    for low, high, between in (
        ((1, 2), (0, 3), (0, 0)),
        ((2, 0), (1, 1), (1, 2)),
        ((-1, -2), (0, -3), (0, 0)),
        ((-1, -4), (2, -1), (2, 1)),
        ((-3, 1), (-2, 0), (3, 0)),
    ):
        pads = zip((4, 6), low, high, between, strict=True)
        out = [n + (n - 1) * b + a + z for n, a, z, b in pads]
        options = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": between}
        net.add("STABLEHLO_PAD", [net.x, np.array(1, dtype(kind).numpy())], *out, kind=kind, **options)
    assert differences(net.content()) == []


def test_windows_without_a_function_are_refused() -> None:
    net = Many(3, 8)
    read = [net.x, np.float32(0), longs(1, 2), longs(1, 1), longs(1, 1)]
    net.add("REDUCE_WINDOW", read, 3, 7, kind="float", reduce_function="UNSUPPORTED")
    with pytest.raises(UnsupportedOp, match="its function is UNSUPPORTED"):
        network(read_program(net.content()), Options())


def test_empty_tables_are_refused() -> None:
    net = Many(1, 3)
    keys = net.value("keys", (9,), "int32")
    made = [Tensor("y", (9, 2), dtype("float")), Tensor("hits", (9,), dtype("uint8"))]
    read = [keys, net.constant("none", ints()), net.constant("held", np.zeros((0, 2), np.float32))]
    net.block.operators.append(Operator("HASHTABLE_LOOKUP", read, made))
    net.made += made
    with pytest.raises(UnsupportedOp, match="its table is empty"):
        network(read_program(net.content()), Options())
