"""The line on transposes that a converted model keeps."""

from __future__ import annotations

import pytest

from tests.transforms.golden import parse_graph
from thinflow.optimize.left_transposes import transpose_note

HEAD = """x = Placeholder() {dtype=float, shape=shape[1,4,2,6]}
z = Placeholder() {dtype=float, shape=shape[1,4,2,6]}
last = Const() {value=int32[4]{0,2,3,1}}
swap = Const() {value=int32[5]{0,2,1,3,4}}
parts = Const() {value=int32[5]{1,2,2,2,6}}
whole = Const() {value=int32[4]{1,4,2,6}}
w = Const() {value=float[1,1,4,4]{range}}
"""


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("y = Relu(x) {T=float}\n", ""),
        ("y = Transpose(w, last) {T=float, Tperm=int32}\n", ""),
        (
            "a = Relu(x) {T=float}\nb = Transpose(a, last) {T=float, Tperm=int32}\n"
            "y = Softmax(b) {T=float}\n",
            "1 transpose left: input 'x' is fed in another order than it is computed in"
            " (--input-layout auto)",
        ),
        (
            "a = Softmax(x) {T=float}\nb = Transpose(a, last) {T=float, Tperm=int32}\n"
            "y = Relu(b) {T=float}\n",
            "1 transpose left: output 'y' is given in another order than it is computed in"
            " (--output-layout auto)",
        ),
        (
            "a = AddV2(x, z) {T=float}\nb = Reshape(a, parts) {T=float}\n"
            "c = Transpose(b, swap) {T=float, Tperm=int32}\nd = Reshape(c, whole) {T=float}\n"
            "e = Reshape(d, parts) {T=float}\nf = Transpose(e, swap) {T=float, Tperm=int32}\n"
            "y = Reshape(f, whole) {T=float}\n",
            "2 transposes left: 2 x elements change places between two reshapes, as in a shuffle",
        ),
        (
            "a = Softmax(x) {T=float}\nb = Transpose(a, last) {T=float, Tperm=int32}\n"
            "y = Softmax(b) {T=float}\n",
            "1 transpose left: 'y' (Softmax) reads its axes in another order than 'a' (Softmax) gives them",
        ),
    ],
)
def test_the_note(text: str, note: str) -> None:
    graph = parse_graph(HEAD + text + "inputs: x, z\noutputs: y\n")
    assert transpose_note(graph) == note


def test_what_lowering_leaves_out_does_not_count() -> None:
    text = (
        "a = Softmax(x) {T=float}\nb = Transpose(a, last) {T=float, Tperm=int32}\n"
        "c = Softmax(b) {T=float}\ny = Transpose(c, last) {T=float, Tperm=int32}\n"
    )
    graph = parse_graph(HEAD + text + "inputs: x, z\noutputs: y\n")
    assert transpose_note(graph).startswith("2 transposes left: ")
    assert transpose_note(graph, ["y"]).startswith("1 transpose left: output 'y'")
    assert transpose_note(graph, ["b/transposed", "y2"]).startswith("1 transpose left: 'c' (Softmax)")
    assert transpose_note(graph, []) == ""
