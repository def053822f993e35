"""GELU as graphs spell it: x times a sum of one and the error function, or tanh, of x; for any target.

    c * x * (A + B f(k x))  ->  outer * gelu(inner * x)

The half, the signs and the factors may stand anywhere, and may have been folded into what is beside them.
Ops are told by their names, which targets spell in their own cases.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeAlias

import numpy as np

from thinflow.program.fusion import need
from thinflow.program.model import O, T
from thinflow.program.wiring import Wiring
from thinflow.typing import Array

_DEEPEST = 8
"""Operators that a factor, a sum or a polynomial may go through."""

HENDRYCKS = np.array([0, math.sqrt(2 / math.pi), 0, math.sqrt(2 / math.pi) * 0.044715])
"""Factors of 1, x, x^2 and x^3 in the approximation of Hendrycks and Gimpel, 2016."""

_CLOSE = 2e-4
"""Relative. Constants of formulas were rounded by whoever wrote them, in float32 or in a text."""


class Gelu(NamedTuple, Generic[T]):
    """outer * gelu(inner * x), by the error function or approximately by tanh."""

    x: T
    inner: float
    outer: float
    approximate: bool


Chain: TypeAlias = list[tuple[T, float]]
"""A tensor, then those that it is a multiple of, each with the factor."""


def found_gelu(wiring: Wiring[T, O], head: O) -> Gelu[T] | None:
    """The GELU that ends in a product or a sum; None where there is none.

    Raises:
        Refuse: there nearly is one.
    """
    code = head.code.upper()
    if code in ("MUL", "DIV"):
        if _is_part_of_product(wiring, head):
            return None  # the factor behind it belongs to it
        number, tensors = _product(wiring, head)
        if len(tensors) != 2:
            return None
        for x, gate in (tensors, tensors[::-1]):
            found = _affine(wiring, gate)
            if found is not None:
                return _gelu(wiring, _chain(wiring, x), number * found.one, number * found.factor, found.step)
    if code == "ADD":
        return _spread(wiring, head)
    return None


def _spread(wiring: Wiring[T, O], head: O) -> Gelu[T] | None:
    """h + h * f(k x), of h = c * x."""
    for plain, product in (head.inputs, head.inputs[::-1]):
        step = wiring.sole_producer(product, "MUL", "Mul")
        if plain is None or plain.is_constant or step is None or not _is_plain(step):
            continue
        number, tensors = _product(wiring, step)
        if len(tensors) != 2:
            continue
        for other, gate in (tensors, tensors[::-1]):
            found, whole = _affine(wiring, gate), dict(_chain(wiring, plain))
            if found is None:
                continue
            # Both are multiples of the same tensor, by factors that become the one and that of the function.
            for x, factor in _chain(wiring, other):
                if x in whole:
                    one = whole[x] + number * factor * found.one
                    return _gelu(wiring, _chain(wiring, x), one, number * factor * found.factor, found.step)
    return None


def _gelu(wiring: Wiring[T, O], chain: Chain[T], one: float, factor: float, step: O) -> Gelu[T] | None:
    """The GELU of x * (one + factor * f(argument)), x being the first of a chain."""
    if not one or abs(abs(factor) - abs(one)) > _CLOSE * abs(one):
        return None
    # Both functions are odd: 1 - f(-z) = 1 + f(z).
    sign, argument = math.copysign(1, factor * one), step.inputs[0]
    if step.code.upper() == "TANH":
        for x, multiple in chain:
            given = _polynomial(wiring, argument, x)
            # A sigmoid is x * 0.5 * (1 + tanh(x / 2)): no GELU, and none that is told to be missed.
            if len(given) == len(HENDRYCKS):
                near = np.allclose(sign * given, HENDRYCKS, rtol=1e-4, atol=1e-6)
                need(near, "its polynomial is another one")
                return Gelu(x, 1.0, _rounded(2 * one * multiple), True)
        return None
    places = dict(chain)
    common = [(x, slope) for x, slope in _chain(wiring, argument) if x in places]
    need(common, "the error function is not of what it is multiplied with")
    inner = {x: _rounded(sign * slope / math.sqrt(0.5)) for x, slope in common}
    # Of several tensors that both are multiples of, the one that needs no factor.
    x = next((x for x in inner if inner[x] == 1), common[0][0])
    if inner[x] == 0 or not math.isfinite(inner[x]):
        return None
    # gelu(s x) = s x / 2 * (1 + erf(s x / sqrt 2))
    return Gelu(x, inner[x], _rounded(2 * one * places[x] / inner[x]), False)


def _rounded(number: float) -> float:
    """A factor; 1 where it is nearly that, as constants are rounded."""
    return 1.0 if abs(number - 1) < _CLOSE else number


class _Affine(NamedTuple, Generic[O]):
    """one + factor * f(...), f being what a step computes."""

    one: float
    factor: float
    step: O


def _affine(wiring: Wiring[T, O], tensor: T | None, depth: int = _DEEPEST) -> _Affine[O] | None:
    step = wiring.sole_producer(tensor) if depth else None
    if step is None or not _is_plain(step):
        return None
    code = step.code.upper()
    if code == "ERF" or code == "TANH":
        return _Affine(0.0, 1.0, step)
    if code not in ("ADD", "SUB") and not _is_scaling(step):
        return None
    numbers = [_number(t) for t in step.inputs]
    inner = next((t for t, n in zip(step.inputs, numbers, strict=True) if n is None), None)
    found = _affine(wiring, inner, depth - 1)
    if found is None:
        return None
    one, factor, function = found
    if code == "NEG":
        return _Affine(-one, -factor, function)
    number = next((n for n in numbers if n is not None), None)
    if number is None or (code == "DIV" and (numbers[1] is None or not number)):
        return None
    if code == "ADD":
        return _Affine(one + number, factor, function)
    if code == "SUB":
        is_less = numbers[0] is not None
        sign = -1.0 if is_less else 1.0
        return _Affine(sign * (one - number), sign * factor, function)
    scale = number if code == "MUL" else 1 / number
    return _Affine(one * scale, factor * scale, function)


def _product(wiring: Wiring[T, O], operator: O, depth: int = _DEEPEST) -> tuple[float, list[T]]:
    """The factors of a product of products: the numbers among them as one, and the tensors."""
    number, tensors = 1.0, list[T]()
    for place, tensor in enumerate(operator.inputs):
        constant, is_below = _number(tensor), operator.code.upper() == "DIV" and place == 1
        if tensor is None:
            continue
        if constant is not None and (constant or not is_below):
            number *= 1 / constant if is_below else constant
            continue
        step = wiring.sole_producer(tensor, "MUL", "Mul", "DIV", "Div") if depth and not is_below else None
        if step is not None and _is_plain(step):
            inner, found = _product(wiring, step, depth - 1)
            number, tensors = number * inner, tensors + found
        else:
            # A divisor that is computed makes no GELU: three tensors are too many for one.
            tensors += [tensor, tensor, tensor] if is_below else [tensor]
    return number, tensors


def _is_part_of_product(wiring: Wiring[T, O], operator: O) -> bool:
    """True if a number is multiplied with an operator's result, by the only operator that reads it."""
    y = operator.outputs[0]
    if not wiring.is_read_once(y) or not _is_plain(operator):
        return False
    (reader,) = wiring.readers(y)
    others = [t for t in reader.inputs if t is not y]
    is_factor = reader.code.upper() == "MUL" or (reader.code.upper() == "DIV" and reader.inputs[0] is y)
    return is_factor and _is_plain(reader) and any(_number(t) is not None for t in others)


def _chain(wiring: Wiring[T, O], tensor: T | None) -> Chain[T]:
    """A tensor with those that it is a multiple of, whoever else reads them."""
    found: Chain[T] = []
    factor = 1.0
    while tensor is not None and len(found) < _DEEPEST:
        found.append((tensor, factor))
        step = wiring.producer(tensor)
        if step is None or not _is_plain(step) or not _is_scaling(step):
            break
        if step.code.upper() == "NEG":
            tensor, factor = step.inputs[0], -factor
            continue
        first, second = step.inputs
        number = _number(second)
        if step.code.upper() == "MUL" and number is None:
            first, number = second, _number(first)
        if number is None or (step.code.upper() == "DIV" and not number):
            break
        tensor, factor = first, factor / number if step.code.upper() == "DIV" else factor * number
    return found


def _polynomial(wiring: Wiring[T, O], tensor: T | None, x: T, depth: int = _DEEPEST) -> Array:
    """What a tensor is of x: the factors of 1, x, x^2, ...; empty where it is none, or has too many steps.

    The polynomial is compared, not its spelling: exporters write x^3 as a power, as products, or as
    x * (1 + 0.044715 x^2).
    """
    none = np.zeros(0)
    if tensor is x:
        return np.array([0.0, 1.0])
    if tensor is None or not depth:
        return none
    if tensor.is_constant:
        number = _number(tensor)
        return none if number is None else np.array([number])
    step = wiring.producer(tensor)
    if (
        step is None
        or not _is_plain(step)
        or (step.code.upper() not in ("ADD", "SQUARE", "POW") and not _is_scaling(step))
    ):
        return none
    parts = [_polynomial(wiring, t, x, depth - 1) for t in step.inputs]
    if not all(map(len, parts)) or sum(map(len, parts)) > 2 * len(HENDRYCKS):
        return none
    code = step.code.upper()
    if code == "ADD":
        return np.polynomial.polynomial.polyadd(*parts)
    if code == "NEG":
        return -parts[0]
    if code in ("MUL", "SQUARE"):
        return np.polynomial.polynomial.polymul(parts[0], parts[-1])
    number = float(parts[1][0]) if len(parts[1]) == 1 else 0.0
    if code == "DIV":
        return parts[0] / number if number else none
    return np.polynomial.polynomial.polypow(parts[0], int(number)) if number in (2, 3) else none


def _number(tensor: T | None) -> float | None:
    """The one number that a constant is."""
    if tensor is None or not tensor.is_constant:
        return None
    content = tensor.array()
    return float(content.reshape(())) if content.size == 1 and content.dtype.kind == "f" else None


def _is_scaling(operator: O) -> bool:
    """True for a product, a quotient and a change of sign."""
    return operator.code.upper() in ("MUL", "DIV", "NEG")


def _is_plain(operator: O) -> bool:
    """True if no activation is fused into an operator, as LiteRT's have one."""
    return bool(operator.options.get("fused_activation_function", "NONE") == "NONE")
