"""Guessing inputs and outputs."""

from __future__ import annotations

import pytest

from tests.transforms.golden import parse_graph
from thinflow.analysis.interface import Interface, guess_interface
from thinflow.analysis.shapes import infer_shapes
from thinflow.formats import graphdef


def guess(text: str) -> Interface:
    graph = parse_graph(text)
    infer_shapes(graph)
    return guess_interface(graph)


def chosen(interface: Interface) -> tuple[list[str], list[str]]:
    return [v.name for v in interface.chosen_inputs], [v.name for v in interface.chosen_outputs]


def test_plain_graph() -> None:
    found = guess("x = Placeholder() {dtype=float, shape=shape[1,4]}\ny = Softmax(x) {T=float}")
    assert chosen(found) == (["x"], ["y"])
    assert "is a Softmax, 4 wide" in found.outputs[0].reasons
    assert str(found.inputs[0]).startswith("x: a placeholder of float[1,4]")
    assert found.cut is None


def test_a_range_stated_beside_codes_is_no_output() -> None:
    codes = "y = Softmax(x) {T=float}\nz = Cast(y) {SrcT=float, DstT=int8}\n"
    fed = "x = Placeholder() {dtype=float, shape=shape[1,4]}\n"
    found = guess(f"{fed}{codes}r = FakeQuantWithMinMaxArgs(y)")
    assert chosen(found) == (["x"], ["z"])
    found = guess(f"{fed}r = FakeQuantWithMinMaxArgs(x)")
    assert chosen(found) == (["x"], ["r"])


def test_labels_and_debris_are_not_suggested() -> None:
    found = guess(
        """
        x = Placeholder() {dtype=float, shape=shape[1,4]}
        labels = Placeholder() {dtype=float, shape=shape[1,4]}
        prob = Softmax(x) {T=float}
        loss = Sub(prob, labels) {T=float}
        gradients/Sub_1 = Neg(loss) {T=float}
        """
    )
    assert all(c.score <= 0 or c.value.name != "labels" or c.reasons for c in found.inputs)
    assert any("looks like training debris" in c.reasons for c in found.outputs)


def test_placeholder_with_default_is_optional() -> None:
    found = guess(
        """
        x = Placeholder() {dtype=float, shape=shape[4]}
        d = Const() {dtype=float, value=float[]{1}}
        keep_prob = PlaceholderWithDefault(d) {dtype=float, shape=shape[]}
        y = Mul(x, keep_prob) {T=float}
        """
    )
    assert chosen(found)[0] == ["x"]
    (switch,) = [c for c in found.inputs if c.value.name == "keep_prob"]
    assert "has a default" in switch.reasons
    assert any("training switch" in r for r in switch.reasons)


def test_decoding_is_cut() -> None:
    found = guess(
        """
        file = Placeholder() {dtype=string, shape=shape[]}
        picture = DecodeJpeg(file) {channels=3}
        floats = Cast(picture) {SrcT=uint8, DstT=float}
        zero = Const() {dtype=int32, value=int32[]{0}}
        batch = ExpandDims(floats, zero) {T=float, Tdim=int32}
        w = Const() {dtype=float, value=float[1,1,3,2]{range}}
        y = Conv2D(batch, w) {T=float, strides=[1,1,1,1], padding="SAME"}
        """
    )
    assert found.cut is not None
    assert found.cut.value.name == "batch"
    assert found.preprocessing == ["decodes a JPEG", "cast", "adding the batch"]
    assert any("decodes a JPEG" in r for r in found.inputs[0].reasons)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("DecodeAndCropJpeg", "decodes a JPEG"),
        ("DecodePaddedRaw", "decodes bytes"),
        ("ParseExampleV2", "decodes records"),
        ("ReadFile", "reads a file"),
    ],
)
def test_what_reads_bytes_is_told(op: str, words: str) -> None:
    found = guess_interface(parse_graph(f"x = Placeholder() {{dtype=string, shape=shape[]}}\ny = {op}(x)\n"))
    assert f"goes into {op}, which {words}" in found.inputs[0].reasons
    assert found.preprocessing == [words]


def test_a_ring_of_identities_ends() -> None:
    graph = graphdef.from_text(
        'node { name: "a" op: "Identity" input: "b" } node { name: "b" op: "Identity" input: "a" } '
        'node { name: "y" op: "Identity" input: "a" }'
    )
    assert [c.value.name for c in guess_interface(graph).outputs] == ["y"]


def test_nothing_to_suggest() -> None:
    found = guess("c = Const() {dtype=float, value=float[]{1}}\nn = NoOp()")
    assert chosen(found) == ([], [])


def test_what_seldom_is_an_output_is_one_if_nothing_else_is() -> None:
    x = "x = Placeholder() {dtype=float, shape=shape[2]}\n"
    printed = x + 'p = Print(x, x) {T=float, U=[float], message="m"}'
    assert chosen(guess(printed)) == (["x"], ["p"])
    assert chosen(guess(printed + "\ny = Relu(x) {T=float}")) == (["x"], ["y"])
    assert chosen(guess(x + "q = PlaceholderWithDefault(x) {dtype=float, shape=shape[2]}"))[1] == ["q"]


def test_results_of_tensorflow_2_are_suggested_whatever_their_type() -> None:
    graph = parse_graph(
        """
        s = Placeholder() {dtype=string, shape=shape[?]}
        low = StringLower(s)
        Identity = Identity(low) {T=string}
        n = StringLength(s)
        Identity_1 = Identity(n) {T=int32}
        debris = StringLower(s)
        """
    )
    infer_shapes(graph)
    found = guess_interface(graph)
    assert {v.name for v in found.chosen_outputs} == {"Identity", "Identity_1"}
    assert "is named as TensorFlow 2 names results" in found.outputs[0].reasons
