"""Inputs and outputs of two models in pairs."""

from __future__ import annotations

import pytest

from thinflow.compare.match_io import Ports, is_channels_first, match_ports, order_between, shapes_fit
from thinflow.errors import GraphError
from thinflow.ir.types import FLOAT, INT8, STRING, TensorSpec


def ports(aliases: dict[str, str] | None = None, **shapes: tuple[int | None, ...]) -> Ports:
    return Ports({n: TensorSpec(FLOAT, s) for n, s in shapes.items()}, aliases or {})


def test_by_name_with_and_without_a_port() -> None:
    a = Ports({"x:0": TensorSpec(FLOAT, (1,)), "y": TensorSpec(FLOAT, (1,))})
    b = Ports({"y:0": TensorSpec(FLOAT, (1,)), "x": TensorSpec(FLOAT, (1,))})
    found = match_ports(a, b, "input")
    assert found.pairs == {"x": "x", "y": "y:0"}
    assert found.notes == []


def test_by_the_names_of_signatures() -> None:
    a = ports({"image": "t1", "mask": "t2"}, t1=(1, 2), t2=(1, 2))
    b = ports({"mask": "u1", "image": "u2"}, u1=(1, 2), u2=(1, 2))
    assert match_ports(a, b, "input").pairs == {"t1": "u2", "t2": "u1"}


def test_without_what_tools_put_in_front() -> None:
    a = Ports({"StatefulPartitionedCall/image": TensorSpec(FLOAT, (1, 2)), "b": TensorSpec(FLOAT, (1, 2))})
    b = ports(serving_default_b=(1, 2), image=(1, 2))
    found = match_ports(a, b, "input")
    assert found.pairs == {"StatefulPartitionedCall/image": "image", "b": "serving_default_b"}


def test_by_shape_where_only_one_fits() -> None:
    found = match_ports(ports(p=(1, 2), q=(1, 8, 8, 3)), ports(u=(None, 3, 8, 8), v=(1, 2)), "output")
    assert found.pairs == {"p": "v", "q": "u"}
    assert found.notes == [
        "outputs are paired by type and shape, as no names are shared: q with u, p with v"
    ] or found.notes == ["outputs are paired by type and shape, as no names are shared: p with v, q with u"]


def test_what_is_left_goes_by_position() -> None:
    found = match_ports(ports(x=(1,), p=(2,), q=(2,)), ports(x=(1,), u=(2,), v=(2,)), "input")
    assert found.pairs == {"x": "x", "p": "u", "q": "v"}
    assert found.notes == ["inputs are paired by position, as no names are shared: p with u, q with v"]


def test_eight_bit_ends_fit_float_ones_and_text_does_not() -> None:
    codes = Ports({"u": TensorSpec(INT8, (1, 2))})
    assert match_ports(ports(p=(1, 2)), codes, "output").pairs == {"p": "u"}
    text = Ports({"u": TensorSpec(STRING, (1,)), "v": TensorSpec(FLOAT, (1,))})
    assert match_ports(ports(p=(1,)), text, "output").pairs == {"p": "v"}


def test_what_cannot_be_paired() -> None:
    with pytest.raises(GraphError, match=r"inputs cannot be paired: x float\[1\] beside u float\[1\], v"):
        match_ports(ports(x=(1,)), ports(u=(1,), v=(1,)), "input")
    assert match_ports(ports(x=(1,), y=(2,)), ports(x=(1,)), "output").pairs == {"x": "x"}


def test_shapes() -> None:
    assert shapes_fit((None, 3), (5, 3))
    assert not shapes_fit((2, 3), (2, 3, 1))
    assert is_channels_first((1, 8, 9, 3), (1, 3, 8, 9))
    assert not is_channels_first((1, 3, 3, 3), (1, 3, 3, 3))
    assert order_between((1, 8, 9, 3), (1, 3, 8, 9)) == (0, 2, 3, 1)
    assert order_between((1, 3, 8, 9), (1, 8, 9, 3)) == (0, 3, 1, 2)
    assert order_between((2, 3), (2, 3)) == (0, 1)
    assert order_between((1, 2, 3), (2, 2, 3)) is None
