"""A loop that turns three times, or as often as it is fed."""

from __future__ import annotations

import numpy as np

LOOP = """
x = Placeholder() {dtype=float, shape=shape[2]}
LIMIT
start = Const() {value=int32[]{0}}
loop = StatelessWhile(start, x, turns) {T=[int32,float,int32], body=@body, cond=@cond}
y = Neg(loop:1) {T=float}
inputs: INPUTS
outputs: y
def cond(i: int32, v: float, n: int32)
less = Less(i, n) {T=int32}
return less
def body(i: int32, v: float, n: int32)
one = Const() {value=int32[]{1}}
add = AddV2(i, one) {T=int32}
double = AddV2(v, v) {T=float}
return add, double, n
"""
FIXED = LOOP.replace("LIMIT", "turns = Const() {value=int32[]{3}}").replace("INPUTS", "x")
FED = LOOP.replace("LIMIT", "turns = Placeholder() {dtype=int32, shape=shape[]}").replace(
    "INPUTS", "x, turns"
)
TURNS = [{"x": np.ones(2, np.float32), "turns": np.int32(n)} for n in (1, 9)]
