"""Elements in C that are picked, placed and counted by numbers answer as LiteRT's own kernels do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many, ints, number
from thinflow.api.converting import convert_verified
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.mark.parametrize("kind", ["float", "int32"])
def test_slices_with_the_same_number(kind: str) -> None:
    net = Many(4, 3, kind=kind)
    for code in ("SUM", "PROD", "MAX", "MIN"):
        net.add(f"UNSORTED_SEGMENT_{code}", [net.x, ints(3, 0, 3, 1), number(5)], 5, 3, kind=kind)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["float", "int64", "int8"])
def test_numbers_into_a_plane(kind: str) -> None:
    net = Many(3, kind=kind)
    if kind == "int8":
        net.x.quantization = None
    other = np.array(7, net.x.dtype.numpy())
    net.add(
        "SPARSE_TO_DENSE", [np.int32([[0, 1], [2, 0], [2, 3]]), ints(3, 4), net.x, other], 3, 4, kind=kind
    )
    net.add("SPARSE_TO_DENSE", [ints(4, 0, 1), ints(6), net.x, other], 6, kind=kind)
    assert differences(net.content()) == []


def test_one_number_into_a_plane() -> None:
    net = Many(kind="float")
    net.add("SPARSE_TO_DENSE", [np.int32([[0, 1], [2, 0]]), ints(3, 4), net.x, np.float32(-1)], 3, 4)
    net.add("FILL", [ints(3, 2), net.x], 3, 2)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["float", "int32", "int64"])
def test_boundaries(kind: str) -> None:
    net = Many(9, 9, kind=kind)
    ends = [-1.0, -0.25, 0.5, 30.0, 50.0]
    net.add("BUCKETIZE", [net.x], 9, 9, kind="int32", boundaries=ends)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["float", "int8", "int64"])
def test_elements_apart(kind: str) -> None:
    net = Many(3, 1, 4, kind=kind)
    net.add("DILATE", [net.x, ints(2, 1, 3), np.array(5, net.x.dtype.numpy())], 5, 1, 10)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "uint16", "int32", "uint32"])
def test_bits_by_more_than_there_are(kind: str) -> None:
    net = Many(2, 40, kind=kind)
    net.x.quantization = None
    other = net.value("other", (40,), kind)
    net.add("RIGHT_SHIFT", [net.x, other], 2, 40, kind=kind)
    if kind == "uint32":
        net.add("MUL", [net.x, other], 2, 40, kind=kind)
    assert differences(net.content()) == []


ALL = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}


def test_slices_that_begin_at_what_is_computed() -> None:
    """Numbers beside the last dimension, so that every run begins elsewhere, and as LiteRT takes them."""
    net = Many(100, 3, 4)
    at = net.value("at", (), "int32")
    at3 = net.add("PACK", [at, number(1), number(0)], 3, kind="int32", axis=0, values_count=3)
    end3 = net.add("PACK", [at, number(3), number(4)], 3, kind="int32", axis=0, values_count=3)
    net.add("SLICE", [net.x, at3, ints(1, 2, 4)], 1, 2, 4)
    at1 = net.add("RESHAPE", [at, ints(1)], 1, kind="int32")
    after = net.add("ADD", [at1, number(1)], 1, kind="int32")
    net.add("STRIDED_SLICE", [net.x, at1, after, ints(1)], 3, 4, **{**ALL, "shrink_axis_mask": 1})
    masks = {**ALL, "shrink_axis_mask": 1, "begin_mask": 4}
    net.add("STRIDED_SLICE", [net.x, at3, end3, ints(1, 1, 2)], 2, 2, **masks)
    assert differences(net.content(), runs=9) == []


def test_rows_of_bytes_as_reals() -> None:
    net = Many(7, kind="int32")
    numbers = np.arange(-100, 100).reshape(100, 2).astype(np.int8)
    net.add("EMBEDDING_LOOKUP", [net.x, net.constant("rows", numbers, 0.03)], 7, 2, kind="float")
    assert differences(net.content()) == []


@pytest.mark.parametrize("step", [1, 2])
def test_items_of_lists(step: int, tmp_path: Path) -> None:
    """TensorFlow's converter joins an item with what lies before and behind it, of sizes that a run tells."""
    net = Many(5, 1, 3)
    item, scores = net.value("item", (1, 1, 3)), net.value("scores", (1, 5))
    place = net.add("ARG_MAX", [scores, number(1)], 1, kind="int32", output_type=dtype("int32"))
    last = net.add("MINIMUM", [place, ints(5 - step)], 1, kind="int32")
    place = net.add("RESHAPE", [last, np.zeros(0, np.int32)], kind="int32")
    after = net.add("ADD", [place, number(step)], kind="int32")
    first, second = (net.add("RESHAPE", [t, ints(1)], 1, kind="int32") for t in (place, after))
    length = net.add("CONCATENATION", [first, ints(-1, -1)], 3, kind="int32", axis=0)
    begin = net.add("CONCATENATION", [second, ints(0, 0)], 3, kind="int32", axis=0)
    head, tail = (
        net.add("SLICE", [net.x, *ends], *(None,) * 3, kind="float")
        for ends in ((ints(0, 0, 0), length), (begin, ints(-1, -1, -1)))
    )
    made = net.add("CONCATENATION", [head, item, tail], 5, 1, 3, kind="float", axis=0)
    net.made = [made]
    path, target = tmp_path / "list.tflite", tmp_path / "net.c"
    path.write_bytes(net.content())
    if step > 1:
        # Those are other slices.
        with pytest.raises(UnsupportedOp, match=r"\(SLICE\) follow from what is computed"):
            convert_verified(path, target)
        return
    assert "every number is equal" in convert_verified(path, target).proof
    assert "DYNAMIC_UPDATE_SLICE" in target.read_text("utf-8")
