"""Ops that hand their input on, or compute nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement
from tests.transforms.golden import parse_graph
from thinflow.engines.session import Session
from thinflow.errors import NodeError, ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec
from thinflow.ops import registry
from thinflow.ops.traits import Trait

_X = np.arange(6, dtype=np.float32).reshape(2, 3)
_TEXT = np.array([b"a", b"\xff"], object)

CASES: dict[str, list[Case]] = {
    **{
        name: [([_X], {}), ([_TEXT], {}), ([np.zeros((0, 2), np.int32)], {})]
        for name in ("Identity", "Snapshot", "StopGradient", "PreventGradient", "RefIdentity", "DeepCopy")
    },
    "DebugGradientIdentity": [([_X], {})],
    "GuaranteeConst": [([_X], {})],
    "IdentityN": [([_X, np.array(3, np.int64)], {})],
    "PlaceholderWithDefault": [([_X], {"shape": (None, 3)}), ([_X], {"shape": None})],
    "EnsureShape": [([_X], {"shape": (None, 3)}), ([_X], {"shape": None})],
    "CheckNumerics": [([_X], {"message": "x"}), ([_X.astype(np.float16)], {"message": ""})],
    "CheckNumericsV2": [([_X], {"message": "x"})],
    "Print": [([_X, np.array([1, 2, 3, 4])], {"message": "x = ", "summarize": 3})],
    "PrintV2": [([np.array(b"hello", object)], {})],
    "Assert": [([np.array(True), _X], {})],
    "NoOp": [([], {})],
}


def run(name: str, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return registry.call_kernel(registry.get(name), [np.asarray(x) for x in inputs], attrs)


def infer(name: str, *specs: TensorSpec, **attrs: Any) -> tuple[TensorSpec, ...]:
    return registry.call_infer(registry.get(name), specs, attrs)


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case, exact=name != "PlaceholderWithDefault")


def test_known_elements_pass() -> None:
    spec = TensorSpec(INT32, (2,), (None, 3))
    assert infer("Identity", spec) == (spec,)
    assert infer("IdentityN", spec, spec) == (spec, spec)


def test_a_default_may_be_replaced_so_its_elements_do_not_count() -> None:
    spec = TensorSpec(INT32, (2,), (1, 3))
    assert infer("PlaceholderWithDefault", spec, shape=(None,)) == (TensorSpec(INT32, (None,)),)
    assert infer("PlaceholderWithDefault", spec) == (TensorSpec(INT32, None),)


def test_ensure_shape() -> None:
    assert infer("EnsureShape", TensorSpec(FLOAT, (2, None)), shape=(None, 3))[0].shape == (2, 3)
    with pytest.raises(ShapeError, match=r"has shape \[2,3\], \[2,4\] is demanded"):
        run("EnsureShape", _X, shape=(2, 4))


def test_check_numerics_names_what_it_found() -> None:
    with pytest.raises(NodeError, match="logits: the tensor has Inf and NaN values"):
        run("CheckNumerics", np.float32([np.nan, np.inf]), message="logits")


def test_assert_shows_its_data() -> None:
    assert run("Assert", True, [1, 2]) == ()
    with pytest.raises(NodeError, match=r"assertion failed: \[1 2 3\.\.\.\]"):
        run("Assert", False, [1, 2, 3, 4])


def test_print_writes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    run("Print", _X, np.array([1, 2, 3, 4]), message="x = ", summarize=2)
    run("PrintV2", np.array(b"tail", object), end="!\n")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "x = [1 2...]\ntail!\n"


@pytest.mark.parametrize(
    ("data", "most", "text"),
    [
        (np.float32([0, 6, 1.7985686, 1e-5, 1234567, np.nan]), -1, "[0 6 1.79856861 1e-05 1234567 nan]"),
        (np.float64([0.1, 1 / 3]), -1, "[0.1 0.33333333333333331]"),
        (np.float16([0.1, 3]), -1, "[0.0999755859 3]"),
        (np.float32(3.5), 3, "[3.5]"),
        (np.arange(6).reshape(2, 3), 3, "[[0 1 2]...]"),
        (np.arange(6).reshape(2, 3), 100, "[[0 1 2][3 4 5]]"),
        (np.arange(24).reshape(2, 3, 4), 3, "[[[0 1 2...]]...]"),
        (np.zeros((2, 0, 3), np.int32), 3, "[]"),
        (np.array([True, False]), 3, "[1 0]"),
        (np.array([b"a b", b"c\nd"], object), 3, "[a b c\\nd]"),
        (np.array([1 + 2j]), 3, "[?]"),
    ],
)
def test_print_spells_as_tensorflow_does(
    data: np.ndarray[Any, Any], most: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("Print", _X, data, summarize=most)
    assert capsys.readouterr().err == f"{text}\n"


def test_print_stops_after_its_first_runs(capsys: pytest.CaptureFixture[str]) -> None:
    graph = parse_graph("""
        x = Placeholder() {dtype=float}
        twice = Print(x, x) {T=float, U=[float], first_n=2}
        never = Print(x, x) {T=float, U=[float], first_n=0}
        inputs: x
        outputs: twice, never
    """)
    session = Session(graph, engine="reference")
    for number in range(4):
        x = np.float32(number)
        assert session.run(["twice"], {"x": x}) == [x]  # of its own, and with the other
        assert session.run(["twice", "never"], {"x": x}) == [x, x]
    assert capsys.readouterr().err == "[0]\n[0]\n"


def test_flags() -> None:
    assert registry.get("StopGradient").has(Trait.PASSES_THROUGH)
    assert registry.get("Print").has(Trait.STATEFUL)
    assert registry.get("Print").has(Trait.PASSES_THROUGH)
    assert registry.get("Assert").has(Trait.STATEFUL)
    assert not registry.get("Identity").has(Trait.STATEFUL)
    assert registry.get("NoOp").num_outputs == 0


def test_assert_shows_as_much_as_it_is_told() -> None:
    check = registry.get("Assert").kernel
    assert check is not None
    data = np.arange(5, dtype=np.float32), np.array([b"why"], object)
    with pytest.raises(NodeError) as caught:
        check(np.False_, *data)
    assert caught.value.problem == "assertion failed: [0 1 2...] [why]"  # three, unless told
    with pytest.raises(NodeError) as caught:
        check(np.False_, *data, summarize=-1)
    assert caught.value.problem == "assertion failed: [0 1 2 3 4] [why]"
    with pytest.raises(NodeError, match=r"assertion failed: \[0 1 2\.\.\.\] \[why\]"):
        check(np.array([True, False]), *data)
    assert check(np.True_, *data) == ()
