"""Attribute values and what tells them apart."""

from __future__ import annotations

import itertools

from thinflow.ir.attrs import Attr, FunctionAttr, attr_key


def test_keys_tell_apart_what_a_file_tells_apart() -> None:
    values: list[Attr] = [0, 0.0, -0.0, False, b"", (0.0,), (-0.0,), FunctionAttr("f", {"x": 0.0})]
    values += [float("inf"), float("nan"), FunctionAttr("f", {"x": -0.0})]
    for a, b in itertools.combinations(values, 2):
        assert attr_key(a) != attr_key(b)


def test_a_nan_equals_itself() -> None:
    assert attr_key(float("nan")) == attr_key(float("nan"))
