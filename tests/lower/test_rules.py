"""The registry of lowering rules."""

from __future__ import annotations

import inspect
from functools import cache

import pytest

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.lower import rules
from thinflow.ops import registry
from thinflow.ops.registry import signature


def test_find():
    rule = rules.find("Conv2D", "tflite")
    assert rule is not None
    assert rule.__module__ == "thinflow.lower.tflite.layers"
    assert rules.find("NoSuchOp", "tflite") is None
    assert "Relu" in rules.supported("tflite")


def test_two_rules_for_one_op_name_both_modules(monkeypatch):
    # A registry for this test alone.
    monkeypatch.setattr(rules, "_rules", cache(rules._rules.__wrapped__))

    def first(b, node, x): ...

    def second(b, node, x): ...

    first.__module__, second.__module__ = "somewhere", "elsewhere"
    rules.lower("Op", to="target")(first)
    rules.lower("Op", to="other")(second)
    with pytest.raises(RuntimeError, match="Op is lowered to target in both somewhere and elsewhere"):
        rules.lower("Op", to="target")(second)


def apply(rule, *inputs, **attrs):
    node = Graph().add("Op", name="n", attrs=attrs)
    return rules.apply(rule, "builder", node, inputs)


def test_apply_passes_attributes_and_returns_a_tuple():
    def rule(b, node, x, *, axis=0, mode="a"):
        return (b, x, axis, mode), None

    assert apply(rule, 1, axis=2, unknown=3) == (("builder", 1, 2, "a"), None)
    assert apply(lambda b, node, *xs: len(xs), 1, 2, 3) == (3,)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda b, node: 0, "1 inputs, 0 are needed"),
        (lambda b, node, x, y: 0, "1 inputs, 2 are needed"),
        (lambda b, node, x, *, axis: 0, "the attribute 'axis' is missing"),
        (lambda b, node, x: x + "a", "not well formed"),
    ],
)
def test_a_malformed_node_is_refused_with_its_name(rule, message):
    with pytest.raises(UnsupportedOp, match=message) as caught:
        apply(rule, 1)
    assert caught.value.where == "node 'n' (Op)"


def test_defaults_of_attributes_are_those_of_the_op():
    """A rule for several ops leaves a default open (None or empty) where theirs differ."""
    served: dict[object, set[str]] = {}
    for target in ("tflite", "onnx"):
        for op in rules.supported(target):
            served.setdefault(rules.find(op, target), set()).add(op)
    for rule, ops in served.items():
        for attr, default in signature(rule).attrs.items():
            if attr.startswith("_") or default is inspect.Parameter.empty:
                continue
            stated = {value for op in ops for value in _stated(op, attr)}
            assert stated, f"{rule.__name__}: none of {ops} has an attribute {attr}"
            # Of a layout all that a rule asks is whether channels come first.
            is_last = default == "NHWC" and stated <= {repr("NHWC"), repr("NDHWC")}
            assert default in (None, ()) or is_last or stated == {repr(default)}, (rule.__name__, ops, attr)


def _stated(op: str, attr: str) -> set[str]:
    """The defaults of an attribute in the functions of an op's class."""
    definition = registry.get(op)
    functions = [getattr(definition, name, None) for name in ("infer", "kernel", "cost")]
    attrs = [signature(function).attrs for function in functions if function is not None]
    return {
        repr(a[attr]) for a in attrs if a.get(attr, inspect.Parameter.empty) is not inspect.Parameter.empty
    }
