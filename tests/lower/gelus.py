"""GELU by the error function, with its factors in all the places where models have them."""

from __future__ import annotations

import numpy as np

GELUS = {
    "half of the gate": 0,
    "half in the sum": 0,
    "spread": 0,
    "halved erfc": 0,
    "erfc of a quotient": 0,
    "of its half": 0,
    "divided": 0,
    "doubled": 1,
    "of the negative": 2,
    "less than nothing": 1,
    "steeper": 2,
}
"""How it is spelled -> products that are left beside a GELU of its own."""


def spelled_gelu(net, x, spelling):
    """0.5 x (1 + erf(x / sqrt 2)), or that with other factors."""
    number, root = np.float32, np.float32(np.sqrt(0.5))

    def mul(*parts):
        total, *others = parts
        for part in others:
            total = net.op("Mul", total, part)
        return total

    erf = net.op("Erf", mul(x, root))
    if spelling == "half of the gate":
        return mul(x, mul(number(0.5), net.op("AddV2", erf, number(1))))
    if spelling == "half in the sum":
        return mul(net.op("AddV2", mul(erf, number(0.5)), number(0.5)), x)
    if spelling == "spread":
        half = mul(number(0.5), x)
        return net.op("AddV2", half, mul(half, erf))
    if spelling == "halved erfc":
        return mul(x, mul(net.op("Erfc", mul(x, -root)), number(0.5)))
    if spelling == "erfc of a quotient":
        return mul(net.op("Erfc", net.op("RealDiv", x, number(-np.sqrt(2)))), x, number(0.5))
    if spelling == "of its half":
        half = mul(x, number(0.5))
        return mul(half, net.op("AddV2", number(1), net.op("Erf", mul(half, number(np.sqrt(2))))))
    if spelling == "divided":
        return net.op("RealDiv", mul(x, net.op("AddV2", erf, number(1))), number(2))
    if spelling == "doubled":
        return mul(x, net.op("AddV2", erf, number(1)))
    if spelling == "of the negative":
        return mul(x, number(0.5), net.op("Erfc", mul(x, root)))
    if spelling == "less than nothing":
        return mul(x, number(0.5), net.op("Sub", erf, number(1)))
    assert spelling == "steeper"
    return mul(x, number(0.5), net.op("AddV2", net.op("Erf", mul(x, number(0.9))), number(1)))
