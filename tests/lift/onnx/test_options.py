"""Options of ONNX's ops that are not what they should be: one line each, never another answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import helper, lifted, node, onnx, save
from thinflow.errors import FormatError, UnsupportedOp

X = np.ones((2, 3, 4), np.float32)
PICTURE = np.ones((1, 2, 5, 5), np.float32)
FILTERS = np.ones((4, 2, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("op", "options", "said"),
    [
        ("Flatten", {"axis": 1.5}, "its option 'axis' is '1.5', which is no whole number"),
        ("Elu", {"alpha": "much"}, "its option 'alpha' is 'much', which is no number"),
        ("Trilu", {"upper": [1]}, "its option 'upper' is .*, which is no whole number"),
        ("ReduceSum", {"keepdims": 2}, "its option 'keepdims' is 2, which is neither on nor off"),
        ("ReduceMax", {"keepdims": "yes"}, "its option 'keepdims' is 'yes', which is no whole number"),
        ("Gelu", {"approximate": "well"}, "its option 'approximate' is 'well', which is not known"),
        ("Softmax", {"axis": 3}, "its axis is 3 where there are 3"),
        ("LogSoftmax", {"axis": -4}, "its axis is -4 where there are 3"),
        ("MeanVarianceNormalization", {"odd": 1}, "its option 'odd' is 1, which is not known here"),
        ("LpNormalization", {"p": 3}, "its option 'p' is 3"),
        ("LRN", {"size": 0}, "its window has the size 0"),
        ("Transpose", {"perm": [0, 0, 1]}, r"its order \[0, 0, 1\] is not one of 3 dimensions"),
        ("Transpose", {"perm": [1, 0]}, r"its order \[1, 0\] is not one of 3 dimensions"),
    ],
)
def test_options_of_other_types_and_values(
    op: str, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "m.onnx", [node(op, ["x"], ["y"], **options)], {"x": X}, ["y"])
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": X})


RANDOM = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip


@pytest.mark.parametrize("op", RANDOM)
def test_random_numbers_are_refused(op: str, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node(op, ["x"], ["y"])], {"x": X}, ["y"])
    with pytest.raises(UnsupportedOp, match="it draws random numbers") as caught:
        thinflow.load(path)
    assert f"(onnx.{op})" in caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize("op", ["ZipMap", "CastMap", "DictVectorizer"])
def test_dictionaries_are_refused(op: str, tmp_path: Path) -> None:
    made = node(op, ["x"], ["y"], "ai.onnx.ml")
    path = save(tmp_path / "m.onnx", [made], {"x": X[0]}, ["y"], domains=["ai.onnx.ml"])
    with pytest.raises(UnsupportedOp, match="it takes or gives dictionaries") as caught:
        thinflow.load(path)
    assert "zipmap=False" in caught.value.hint


def test_an_option_that_is_given_twice(tmp_path: Path) -> None:
    made = node("Flatten", ["x"], ["y"], axis=1)
    made.attribute.append(helper.make_attribute("axis", 2))
    path = save(tmp_path / "m.onnx", [made], {"x": X}, ["y"])
    with pytest.raises(FormatError, match="its option 'axis' is given twice") as caught:
        thinflow.load(path)
    assert "(Flatten)" in caught.value.where


@pytest.mark.parametrize(
    ("op", "filters", "options", "said"),
    [
        ("Conv", FILTERS, {"kernel_shape": [2, 2]}, "strides, dilations and kernel do not fit together"),
        ("Conv", FILTERS, {"kernel_shape": [3]}, "strides, dilations and kernel do not fit together"),
        ("Conv", FILTERS[:, :1], {}, "its filters are for 1 channels, and there are 2"),
        ("Conv", np.ones((4, 2, 9, 9), np.float32), {}, "its window reaches over 9 of 5 pixels"),
        ("ConvTranspose", FILTERS[:2], {"kernel_shape": [5, 5]}, "kernel do not fit together"),
    ],
)
def test_windows_that_contradict_their_weights(
    op: str, filters: np.ndarray, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    made = node(op, ["x", "w"], ["y"], **options)
    path = save(tmp_path / "m.onnx", [made], {"x": PICTURE}, ["y"], {"w": filters})
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": PICTURE})


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4"])
@pytest.mark.parametrize("op", ["Identity", "Flatten"])
def test_inputs_that_litert_does_not_take(op: str, kind: str, tmp_path: Path) -> None:
    number = getattr(onnx.TensorProto, kind)
    ends = [helper.make_tensor_value_info(n, number, [2, 4]) for n in "xy"]
    graph = helper.make_graph([node(op, ["x"], ["y"])], "g", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(UnsupportedOp, match=r"the input is .*, which LiteRT does not exchange") as caught:
        thinflow.convert_verified(tmp_path / "m.onnx", tmp_path / "o.tflite")
    assert caught.value.where == "'x'"
    assert "--inputs" in caught.value.hint


def test_floats_of_eight_bits_as_results(tmp_path: Path) -> None:
    """ONNX Runtime hands out their codes, which are compared as the numbers that they are."""
    made = [node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT8E4M3FN)]
    path = save(tmp_path / "m.onnx", made, {"x": X * 2.5}, ["y"])
    (found,) = thinflow.run(path, {"x": X * 2.5}, engine="onnxruntime").values()
    assert (found.astype(np.float32) == 2.5).all()


@pytest.mark.parametrize(
    ("op", "second", "options", "said"),
    [
        ("Gather", np.array([2]), {}, "it names places that are not among 2"),
        ("Gather", np.array([[0, -4]]), {"axis": 1}, "it names places that are not among 3"),
        ("PRelu", np.ones(3, np.float32), {}, r"its slopes of shape \[3\] do not fit"),
        ("Pad", np.array([0, -4, 0, 0, 0, 0]), {}, "its pads take more away than there is"),
    ],
)
def test_operands_that_contradict_their_sizes(
    op: str, second: np.ndarray, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "m.onnx", [node(op, ["x", "c"], ["y"], **options)], {"x": X}, ["y"], {"c": second})
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": X})


def test_a_bias_of_other_channels(tmp_path: Path) -> None:
    held = {"w": FILTERS, "b": np.ones(3, np.float32)}
    path = save(tmp_path / "m.onnx", [node("Conv", ["x", "w", "b"], ["y"])], {"x": PICTURE}, ["y"], held)
    with pytest.raises(UnsupportedOp, match=r"its bias is of shape \[3\] for 4 channels"):
        lifted(path, {"x": PICTURE})


@pytest.mark.parametrize(("domain", "newest"), [("ai.onnx.ml", 5), ("com.microsoft", 1)])
def test_domains_that_are_too_new(domain: str, newest: int, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])], {"x": X}, ["y"], domains=[domain])
    made = onnx.load(path)
    for version, is_known in ((newest, True), (newest + 1, False)):
        made.opset_import[1].version = version
        path.write_bytes(made.SerializeToString())
        if is_known:
            thinflow.load(path)
            continue
        with pytest.raises(UnsupportedOp, match=f"version {version} of {domain}; versions up to") as caught:
            thinflow.load(path)
        assert caught.value.hint
