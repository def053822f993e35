"""Summaries, and what else training and debugging leave behind. The expected bytes are TensorFlow's."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import FormatError, NodeError, ShapeError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, STRING
from thinflow.wire.values import put

X = np.float32([1, np.nan, -2])


def word(value: bytes) -> np.ndarray:
    return np.array(value, object)


ONE = run("ScalarSummary", word(b"t"), np.float32(1.5))
TWO = run("ScalarSummary", text(b"a", b"b"), np.float32([1, 2]))

CASES: dict[str, list[Case]] = {
    "ScalarSummary": [([word(b"t"), np.float32(1.5)], {}), ([text(b"a", b"b"), np.int32([3, 0])], {})],
    "MergeSummary": [([ONE, TWO], {"N": 2})],
    "TensorSummary": [([X], {})],
    "TensorSummaryV2": [([word(b"t"), np.float32([1]), word(b"")], {})],
    "HistogramSummary": [
        ([word(b"h"), np.float32([1, 2, -3.5, 0, 0, 1e-13])], {}),
        ([word(b"h"), np.int32([])], {}),
    ],
    "ControlTrigger": [([], {})],
    "Copy": [([X], {})],
    "CopyHost": [([X], {})],
    "DebugIdentity": [([X], {})],
    "DebugIdentityV2": [([X], {})],
    "DebugNanCount": [([X], {})],
    "RefSelect": [([np.int32(1), X, X], {"N": 2})],
    "Timestamp": [([], {})],
    "FakeParam": [
        ([], {"dtype": FLOAT, "shape": ShapeAttr((2,))}),
        ([], {"dtype": STRING, "shape": ShapeAttr(())}),
    ],
    "HostConst": [([], {"value": Tensor.from_array(np.float32([1, 2])), "dtype": FLOAT})],
    "DeviceIndex": [([], {"device_names": ("GPU", "CPU")})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_summaries() -> None:
    assert ONE.item() == b"\n\x08\n\x01t\x15\x00\x00\xc0?"
    assert run("MergeSummary", ONE, TWO).item() == ONE.item() + TWO.item()
    with pytest.raises(ShapeError, match="two summaries have the tag 't'"):
        run("MergeSummary", ONE, ONE)
    # A tag that is a number instead of bytes is none, as protobuf passes over fields of another wire type.
    odd = word(put(1, put(1, 7)))
    assert run("MergeSummary", odd, odd).item() == 2 * odd.item()
    with pytest.raises(FormatError):
        run("MergeSummary", word(b"\xff"))


def test_histograms() -> None:
    found = run("HistogramSummary", word(b"h"), np.float32([1, -2])).item()
    assert len(found) == 138
    assert found[:12] == b"\n\x87\x01\n\x01h*\x81\x01\t\x00\x00"
    limits = np.frombuffer(found, "<f8", 5, found.index(b"2(") + 2)
    np.testing.assert_allclose(limits, [-2.137823, -1.943475, 0.9249914, 1.0089707, 1.7976931e308], 0.1)
    with pytest.raises(NodeError, match="not finite"):
        run("HistogramSummary", word(b"h"), X)


def test_constants_and_counts() -> None:
    assert run("DebugNanCount", X).tolist() == [1]
    assert run("DeviceIndex", device_names=("GPU", "CPU")) == 1
    assert run("DeviceIndex", device_names=("GPU",)) == 1
    assert run("HostConst", value=Tensor.from_array(np.float32([1, 2]))).tolist() == [1, 2]
    assert abs(float(run("Timestamp")) - time.time()) < 60


def test_the_largest_double_belongs_to_the_last_bucket() -> None:
    message = run("HistogramSummary", word(b"h"), np.array([np.finfo(np.float64).max])).item()
    assert isinstance(message, bytes)
