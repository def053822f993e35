"""Graphs of which only a part runs on a phone."""

from __future__ import annotations

BYTES = """
x = Placeholder() {dtype=string, shape=shape[1]}
n = DecodeRaw(x) {out_type=float}
d = Const() {dtype=int32, value=int32[2]{1,7}}
r = Reshape(n, d) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[7,2]{range}}
y = MatMul(r, w) {T=float}
inputs: x
outputs: y
"""
