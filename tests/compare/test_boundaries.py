"""One model is a part of the other: both are fed and read where the part begins and ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.compare.boundaries import named_pairs
from thinflow.errors import GraphError, ParameterError

WHOLE = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,3]{1,2,3,4,5,6,7,8,9,10,11,12}}
features = MatMul(x, w) {T=float}
k = Const() {dtype=float, value=float[3,2]{1,-2,3,-4,5,6}}
y = MatMul(features, k) {T=float}
inputs: x
outputs: y
"""
BACKBONE = WHOLE[: WHOLE.index("k = ")] + "inputs: x\noutputs: features\n"
HEAD = """
features = Placeholder() {dtype=float, shape=shape[1,3]}
k = Const() {dtype=float, value=float[3,2]{1,-2,3,-4,5,6}}
y = MatMul(features, k) {T=float}
inputs: features
outputs: y
"""
TWINS = """
{x} = Placeholder() {{dtype=float, shape=shape[1,4]}}
{a} = Relu({x}) {{T=float}}
{b} = Neg({x}) {{T=float}}
inputs: {x}
outputs: {a}, {b}
"""
KINDS = ("pb", "tflite", "onnx")


def stored(text: str, path: Path) -> str:
    """A model in a file, as its suffix says; skipped without the engine."""
    pytest.importorskip({".tflite": "ai_edge_litert", ".onnx": "onnxruntime"}.get(path.suffix, "numpy"))
    thinflow.save(parse_graph(text), path)
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part_kind", KINDS)
@pytest.mark.parametrize("text", [BACKBONE, HEAD], ids=["backbone", "head"])
def test_a_part_agrees_with_the_whole_whatever_the_order(
    kind: str, part_kind: str, text: str, tmp_path: Path
) -> None:
    whole, part = stored(WHOLE, tmp_path / f"whole.{kind}"), stored(text, tmp_path / f"part.{part_kind}")
    wrong = stored(text.replace("{1,", "{9,"), tmp_path / f"wrong.{part_kind}")
    for one, other in ((whole, part), (part, whole)):
        found = thinflow.verify(one, other)
        assert found.ok, str(found)
        assert [o.name for o in found.outputs] == (["y"] if text is HEAD else ["features"])
    assert not thinflow.verify(whole, wrong).ok
    assert not thinflow.verify(wrong, whole).ok


def test_the_whole_computes_what_the_part_is_fed(tmp_path: Path) -> None:
    whole, head = stored(WHOLE, tmp_path / "whole.pb"), stored(HEAD, tmp_path / "head.pb")
    x = np.float32([[1, 0, 0, 0]])
    found = thinflow.verify(whole, head, {"x": x})
    assert found.runs == 1
    assert any("the first is fed inside, at features" in n for n in found.notes)
    wrong = stored(HEAD.replace("{1,", "{2,"), tmp_path / "wrong.pb")
    assert thinflow.verify(whole, wrong, {"x": x}).outputs[0].largest == 1  # features[0] is 1
    assert thinflow.verify(whole, wrong, {"features": np.float32([[5, 0, 0]])}).outputs[0].largest == 5


@pytest.mark.parametrize("kind", KINDS[1:])
def test_eight_bit_codes_inside_stand_for_real_numbers(kind: str, tmp_path: Path) -> None:
    whole, part = stored(WHOLE, tmp_path / "whole.pb"), stored(BACKBONE, tmp_path / "part.pb")
    samples = [{"x": np.random.default_rng(n).uniform(-1, 1, (1, 4)).astype(np.float32)} for n in range(20)]
    codes = tmp_path / f"codes.{kind}"
    thinflow.save(thinflow.quantize(whole, samples, format=kind, effort="none"), codes)
    for one, other in ((str(codes), part), (part, str(codes))):
        found = thinflow.verify(one, other, samples[:2], tolerance=0.1)
        assert found.ok, str(found)
        assert found.worst > 1e-4


def test_other_names_need_to_be_told_and_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert")
    text = BACKBONE.replace("features", "f")
    whole, part = stored(WHOLE, tmp_path / "whole.pb"), stored(text, tmp_path / "part.tflite")
    with pytest.raises(GraphError, match=r"outputs cannot be paired: y float\[1,2\] beside f float\[1,3\]\n"):
        thinflow.verify(whole, part)
    for one, other, names in ((whole, part, "features=f"), (part, whole, "f=features")):
        assert main(["verify", one, other, "--outputs", names]) == 0
        capsys.readouterr()
        assert main(["verify", one, other]) == 1
        assert "hint: say which is which: --outputs A=B" in capsys.readouterr().err
    whole_file = stored(WHOLE, tmp_path / "whole.tflite")
    assert thinflow.verify(whole_file, part, outputs=["features=f"]).ok
    with pytest.raises(GraphError, match=r"there is no output 'feature' in the model\nhint: did you mean"):
        thinflow.verify(whole_file, part, outputs=["feature=f"])
    with pytest.raises(GraphError, match="there is no output 'g' in the model"):
        thinflow.verify(whole, part, outputs=["features=g"])


def test_graphs_with_told_pairs(tmp_path: Path) -> None:
    whole = stored(WHOLE, tmp_path / "whole.pb")
    text = HEAD.replace("features", "f").replace("y =", "z =").replace(": y", ": z")
    part = stored(text, tmp_path / "part.pb")
    assert thinflow.verify(whole, part, inputs=["features=f"], outputs=["y=z"]).ok
    with pytest.raises(GraphError, match=r"inputs cannot be paired: x float\[1,4\] beside f float\[1,3\]"):
        thinflow.verify(whole, part, outputs=["y=z"])


def test_outputs_of_one_form_are_paired_by_their_numbers(tmp_path: Path) -> None:
    first = stored(TWINS.format(x="x", a="a", b="b"), tmp_path / "a.pb")
    swapped = TWINS.format(x="x", a="p", b="q").replace("outputs: p, q", "outputs: q, p")
    second = stored(swapped, tmp_path / "b.onnx")
    found = thinflow.verify(first, second)
    assert found.ok
    assert "outputs are paired by their numbers, as no names are shared: a with p, b with q" in found.notes


def test_a_guess_from_the_order_of_inputs_is_told_if_it_may_be_wrong(tmp_path: Path) -> None:
    text = "".join(f"{{{n}}} = Placeholder() {{{{dtype=float, shape=shape[2]}}}}\n" for n in "ab")
    text += "y = Sub({a}, {b}) {{T=float}}\ninputs: {order}\noutputs: y\n"
    first = stored(text.format(a="a", b="b", order="a, b"), tmp_path / "a.pb")
    second = stored(text.format(a="p", b="q", order="q, p"), tmp_path / "b.onnx")
    found = thinflow.verify(first, second)
    assert not found.ok
    told = "only their order says which input is which; if that is wrong, say so: --inputs a=q,b=p"
    assert told in found.notes
    assert thinflow.verify(first, second, inputs=["a=p", "b=q"]).ok


def test_shapes_are_heeded(tmp_path: Path) -> None:
    text = "x = Placeholder() {dtype=float, shape=unknown}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y\n"
    one = stored(text.replace("unknown", "shape[?,?]"), tmp_path / "a.pb")
    other = stored(text.replace("unknown", "shape[?,?]"), tmp_path / "a.onnx")
    assert thinflow.verify(one, other, shapes={"x": (2, 3)}).ok
    assert len(thinflow.verify(other, one, shapes={"x": (2, 3)}).outputs[0].index) == 2
    assert main(["verify", other, one, "--shape", "x=2,3"]) == 0
    with pytest.raises(thinflow.ThinflowError, match="there is no input 'z'"):
        thinflow.verify(other, one, shapes={"z": (2, 3)})


@pytest.mark.parametrize("text", ["a=", "=b"])
def test_half_a_pair(text: str) -> None:
    with pytest.raises(ParameterError, match="half of the pair is missing"):
        named_pairs([text], "output")


def test_named_pairs() -> None:
    found = named_pairs("a, b = c:0", "output")
    assert (found.first, found.pairs, found.second) == (["a", "b"], {"b": "c:0"}, None)
    assert named_pairs(None, "input").first is None
    assert named_pairs(["a:0=b"], "input").second == ["b"]
    with pytest.raises(ParameterError, match="given twice"):
        named_pairs(["a=b", "c=b"], "output")
