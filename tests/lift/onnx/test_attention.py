"""ONNX's attention and the normalizations of its layers against ONNX's own reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import agree, graph_of, helper, lifted, node, onnx, reference, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")


def some(rng: Any, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def attention(seed: int) -> tuple[Any, dict[str, np.ndarray]]:
    """A random Attention, and what it is fed."""
    rng = np.random.default_rng([seed, 5])
    batch, steps, keys = (int(n) for n in rng.integers(1, 5, 3))
    kv, share, width, values = (int(n) for n in rng.integers(1, 4, 4))
    heads, is_flat = kv * share, bool(rng.integers(2))

    def one(count: int, rows: int, size: int) -> np.ndarray:
        return some(rng, batch, rows, count * size) if is_flat else some(rng, batch, count, rows, size)

    feed = {"q": one(heads, steps, width), "k": one(kv, keys, width), "v": one(kv, keys, values)}
    names, options = ["q", "k", "v", "", "", "", ""], {"qk_matmul_output_mode": int(rng.integers(4))}
    past = int(rng.integers(1, 4)) if rng.random() < 0.4 else 0
    if past:
        feed |= {"pk": some(rng, batch, kv, past, width), "pv": some(rng, batch, kv, past, values)}
        names[4:6] = "pk", "pv"
    elif rng.random() < 0.4:
        feed["n"] = rng.integers(1, keys + 1, batch)
        names[6] = "n"
    if rng.random() < 0.6:
        sizes = [(steps, keys + past), (1, steps, keys + past), (batch, heads, steps, keys + past)]
        shape = sizes[int(rng.integers(3))]
        feed["m"] = rng.random(shape) < 0.5 if rng.random() < 0.5 else some(rng, *shape)
        names[3] = "m"
    more = {"is_causal": 1, "softcap": 2.5, "scale": 0.3}
    options |= {key: value for key, value in more.items() if rng.random() < 0.4}
    if "softcap" in options:
        # The reference implementation gives the capped scores for the raw ones; the op's definition does not.
        options["qk_matmul_output_mode"] = int(rng.integers(1, 4))
    if is_flat:
        options |= {"q_num_heads": heads, "kv_num_heads": kv}
    if rng.random() < 0.4:
        options |= {
            "left_window_size": int(rng.integers(-1, 3)),
            "right_window_size": int(rng.integers(-1, 3)),
        }
    while not names[-1]:
        names.pop()
    return node("Attention", names, ["y", "present_k", "present_v", "seen"], **options), feed


@pytest.mark.parametrize("seed", range(30))
def test_random_attention(seed: int, tmp_path: Path) -> None:
    made, feed = attention(seed)
    path = save(tmp_path / "m.onnx", [made], feed, ["y", "present_k", "present_v", "seen"], opset=25)
    expected = reference(path, feed)
    agree(expected, lifted(path, feed))
    thinflow.save(graph_of(path), tmp_path / "o.tflite")
    agree(expected, list(thinflow.run(tmp_path / "o.tflite", feed).values()))


def test_plain_attention_is_two_products_and_a_softmax(tmp_path: Path) -> None:
    x = some(np.random.default_rng(1), 1, 2, 3, 4)
    path = save(tmp_path / "m.onnx", [node("Attention", ["x", "x", "x"], ["y"])], {"x": x}, ["y"], opset=23)
    thinflow.save(graph_of(path), tmp_path / "o.tflite")
    ops = [n.op for n in thinflow.formats.load(tmp_path / "o.tflite") if n.op.startswith("tfl.")]
    assert ops == ["tfl.MUL", "tfl.BATCH_MATMUL", "tfl.SOFTMAX", "tfl.BATCH_MATMUL"]


@pytest.mark.parametrize("kernels", ["AUTO", "BUILTIN_REF"])
def test_queries_that_see_nothing_give_zeros_by_all_kernels(kernels: str, tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    feed = {"x": some(np.random.default_rng(1), 1, 1, 2, 4), "m": np.array([[True, False], [False, False]])}
    path = save(tmp_path / "m.onnx", [node("Attention", ["x", "x", "x", "m"], ["y"])], feed, ["y"], opset=23)
    thinflow.save(graph_of(path), tmp_path / "o.tflite")
    kind = getattr(litert.OpResolverType, kernels)
    engine = litert.Interpreter(str(tmp_path / "o.tflite"), experimental_op_resolver_type=kind)
    engine.allocate_tensors()
    for details in engine.get_input_details():
        engine.set_tensor(details["index"], feed[details["name"]])
    engine.invoke()
    y = engine.get_tensor(engine.get_output_details()[0]["index"])
    np.testing.assert_array_equal(y[0, 0], [feed["x"][0, 0, 0], np.zeros(4)])


def test_a_mask_of_integers_is_added(tmp_path: Path) -> None:
    feed = {"x": some(np.random.default_rng(1), 1, 1, 2, 4), "m": np.array([[0, 3], [-2, 1]], np.int32)}
    path = save(tmp_path / "m.onnx", [node("Attention", ["x", "x", "x", "m"], ["y"])], feed, ["y"], opset=23)
    agree(reference(path, feed), lifted(path, feed))


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (["q", "q", "q", "", "q"], {}, "keys of the past without values"),
        (["q", "q", "q"], {"qk_matmul_output_mode": 7}, "its qk_matmul_output_mode is 7"),
        (["q", "q", "q"], {"left_window_size": -5}, "its window has a negative size"),
        (["f", "f", "f"], {"q_num_heads": 5, "kv_num_heads": 5}, "8 numbers are not 5 heads of equal size"),
        (["q", "k", "k"], {}, "3 heads of queries do not share 2 heads of keys"),
    ],
)
def test_attention_that_is_refused(names: list, options: dict, said: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    feed = {"q": some(rng, 1, 3, 2, 4), "k": some(rng, 1, 2, 2, 4), "f": some(rng, 1, 2, 8)}
    path = save(tmp_path / "m.onnx", [node("Attention", names, ["y"], **options)], feed, ["y"], opset=25)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)


@pytest.mark.parametrize("seed", range(12))
def test_random_rotary_embeddings(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 6])
    batch, steps, heads, quarter = (int(n) for n in rng.integers(1, 5, 4))
    width = 4 * quarter
    turned = width if rng.random() < 0.5 else 2 * quarter
    flat = bool(rng.integers(2))
    x = some(rng, batch, steps, heads * width) if flat else some(rng, batch, heads, steps, width)
    options = {"interleaved": int(rng.integers(2)), "num_heads": heads if flat else 0}
    if turned != width:
        options["rotary_embedding_dim"] = turned
    has_places = bool(rng.integers(2))
    rows = (9,) if has_places else (batch, steps)
    feed = {"x": x, "cos": some(rng, *rows, turned // 2), "sin": some(rng, *rows, turned // 2)}
    if has_places:
        feed["at"] = rng.integers(0, 9, (batch, steps))
    made = node("RotaryEmbedding", list(feed), ["y"], **options)
    path = save(tmp_path / "m.onnx", [made], feed, ["y"], opset=23)
    agree(reference(path, feed), lifted(path, feed))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_heads": 3}, "8 numbers are not 3 heads of equal size"),
        ({"num_heads": 1}, "it has 2 angles, 4 are needed"),
        ({"num_heads": 4, "rotary_embedding_dim": 4}, "it turns 4 numbers of 2"),
    ],
)
def test_rotary_embeddings_that_are_refused(options: dict, said: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    feed = {"x": some(rng, 1, 2, 8), "cos": some(rng, 1, 2, 2), "sin": some(rng, 1, 2, 2)}
    path = save(
        tmp_path / "m.onnx", [node("RotaryEmbedding", list(feed), ["y"], **options)], feed, ["y"], opset=23
    )
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("axis", [-3, 1, -1])
def test_norms_of_layers(op: str, axis: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = some(rng, 2, 3, 4)
    sizes = x.shape[axis % 3 :]
    constants = {"s": some(rng, *sizes)} | ({"b": some(rng, *sizes)} if op[0] == "L" else {})
    outputs = ["y", "mean", "inverse"] if op[0] == "L" else ["y"]
    made = node(op, ["x", *constants], outputs, axis=axis, epsilon=0.01)
    path = save(tmp_path / "m.onnx", [made], {"x": x}, outputs, constants, opset=23)
    agree(reference(path, {"x": x}), lifted(path, {"x": x}))


def test_norms_that_are_refused(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    for options, said in (
        ({"axis": 4}, "its axis 4 is not among 2"),
        ({"stash_type": 7}, "is no floating type"),
    ):
        made = node("RMSNormalization", ["x", "x"], ["y"], **options)
        path = save(tmp_path / "m.onnx", [made], {"x": x}, ["y"], opset=23)
        with pytest.raises(UnsupportedOp, match=said):
            lifted(path, {"x": x})


def test_bodies_of_flex_attention_read_values_from_outside(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    q, k, s = some(rng, 1, 4, 3, 2), some(rng, 1, 2, 5, 2), some(rng, 1, 4, 3, 5)
    kind = onnx.TensorProto.FLOAT
    ends = [[helper.make_tensor_value_info(n, kind, None)] for n in "xy"]
    bodies = {
        option: helper.make_graph([node(op, ["x", "s"], ["y"])], "b", *ends)
        for option, op in (("score_mod", "Add"), ("prob_mod", "Mul"))
    }
    made = node("FlexAttention", ["q", "k", "k"], ["y"], "ai.onnx.preview", scale=0.5, **bodies)
    feed = {"q": q, "k": k, "s": s}
    path = save(tmp_path / "m.onnx", [made], feed, ["y"], domains=["ai.onnx.preview"], opset=26)
    wide = np.repeat(k, 2, axis=1)
    scores = 0.5 * q @ wide.swapaxes(2, 3) + s
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True) * s
    agree([(weights @ wide).astype(np.float32)], lifted(path, feed))
