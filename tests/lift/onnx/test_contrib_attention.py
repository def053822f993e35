"""ONNX Runtime's own attention ops, random ones against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import agree, graph_of, lifted, node, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
MS = "com.microsoft"


def some(rng: Any, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def masked(rng: Any, batch: int, steps: int, keys: int) -> np.ndarray:
    """A mask of whole numbers of one of its forms; every query sees something."""
    form = int(rng.integers(3))
    if form == 0:
        return rng.integers(1, keys + 1, batch).astype(np.int32)
    mask = (rng.random((batch, keys) if form == 1 else (batch, steps, keys)) < 0.6).astype(np.int32)
    mask[..., 0] = 1
    return mask


@pytest.mark.parametrize("seed", range(14))
def test_random_attention(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 31])
    batch, steps, heads, width, inputs = (int(n) for n in rng.integers(1, 5, 5))
    values = width if rng.random() < 0.5 else int(rng.integers(1, 5))
    sizes = [heads * width, heads * width, heads * values]
    past = int(rng.integers(1, 4)) if values == width and rng.random() < 0.5 else 0
    feed = {"x": some(rng, batch, steps, inputs)}
    names = ["x", "w", "b", "", "", ""]
    if rng.random() < 0.6:
        feed["m"] = masked(rng, batch, steps, steps + past)
        names[3] = "m"
    if past:
        feed["p"] = some(rng, 2, batch, heads, past, width)
        names[4] = "p"
    if not past and rng.random() < 0.5:
        feed["a"] = some(rng, 1, heads, steps, steps + past)
        names[5] = "a"
    options: dict[str, Any] = {"num_heads": heads, "unidirectional": int(rng.integers(2))}
    if values != width or rng.random() < 0.3:
        options["qkv_hidden_sizes"] = sizes
    outputs = ["y", "present"] if values == width else ["y"]
    weights = {"w": some(rng, inputs, sum(sizes)), "b": some(rng, sum(sizes))}
    path = save(
        tmp_path / "m.onnx",
        [node("Attention", names, outputs, MS, **options)],
        feed,
        outputs,
        weights,
        opset=17,
    )
    expected = runtime(path, feed)
    agree(expected, lifted(path, feed), 1e-4)
    thinflow.save(graph_of(path), tmp_path / "o.tflite")
    agree(expected, list(thinflow.run(tmp_path / "o.tflite", feed).values()), 1e-4)


@pytest.mark.parametrize("seed", range(14))
def test_random_multi_head_attention(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 32])
    batch, steps, keys, heads, width = (int(n) for n in rng.integers(1, 5, 5))
    names, past = ["q", "k", "v", "", "", "", "", ""], 0
    feed = {n: some(rng, batch, rows, heads * width) for n, rows in (("q", steps), ("k", keys), ("v", keys))}
    if rng.random() < 0.5:
        feed["b"] = some(rng, 3 * heads * width)
        names[3] = "b"
    if rng.random() < 0.4:
        past = int(rng.integers(1, 4))
        feed |= {n: some(rng, batch, heads, past, width) for n in ("pk", "pv")}
        names[6:8] = "pk", "pv"
    if rng.random() < 0.5:
        feed["m"] = masked(rng, batch, steps, keys + past)
        names[4] = "m"
    if rng.random() < 0.4:
        feed["a"] = some(rng, 1, heads, steps, keys + past)
        names[5] = "a"
    options = {"num_heads": heads, "unidirectional": int(rng.integers(2))}
    outputs = ["y", "pk2", "pv2"] if past else ["y"]
    made = node("MultiHeadAttention", names, outputs, MS, **options)
    path = save(tmp_path / "m.onnx", [made], feed, outputs, opset=17)
    agree(runtime(path, feed), lifted(path, feed), 1e-4)


def test_queries_keys_and_values_in_one_tensor(tmp_path: Path) -> None:
    """ONNX Runtime has kernels for these on other hardware only; it has them apart."""
    rng = np.random.default_rng(35)
    q, k, v = (some(rng, 2, 3, 2, 4) for _ in range(3))
    plain = {n: x.reshape(2, 3, 8) for n, x in (("q", q), ("k", k), ("v", v))}
    made = node("MultiHeadAttention", ["q", "k", "v"], ["y"], MS, num_heads=2)
    expected = runtime(save(tmp_path / "a.onnx", [made], plain, ["y"]), plain)
    for feed in ({"q": np.stack([q, k, v], 3)}, {"q": plain["q"], "k": np.stack([k, v], 3)}):
        made = node("MultiHeadAttention", list(feed), ["y"], MS, num_heads=2)
        agree(expected, lifted(save(tmp_path / "b.onnx", [made], feed, ["y"]), feed))


@pytest.mark.parametrize("seed", range(10))
def test_random_rotary_embeddings(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 33])
    batch, steps, heads, quarter = (int(n) for n in rng.integers(1, 5, 4))
    width = 4 * quarter
    is_flat = bool(rng.integers(2))
    x = some(rng, batch, steps, heads * width) if is_flat else some(rng, batch, heads, steps, width)
    places = np.array([int(rng.integers(3))]) if rng.random() < 0.5 else rng.integers(0, 9, (batch, steps))
    options = {"interleaved": int(rng.integers(2))}
    half = width // 2
    if is_flat and rng.random() < 0.5:
        options |= {"num_heads": heads}
        if rng.random() < 0.5:
            half = quarter
            options |= {"rotary_embedding_dim": width // 2}
    feed = {"x": x, "at": places}
    tables = {"cos": some(rng, 9, half), "sin": some(rng, 9, half)}
    made = node("RotaryEmbedding", ["x", "at", "cos", "sin"], ["y"], MS, **options)
    path = save(tmp_path / "m.onnx", [made], feed, ["y"], tables, opset=17)
    agree(runtime(path, feed), lifted(path, feed))


@pytest.mark.parametrize("seed", range(4))
def test_quantized_attention(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 34])
    batch, steps, heads, width = 2, 3, 2, 4
    inputs = 8
    feed = {"x": rng.integers(0, 256, (batch, steps, inputs)).astype(np.uint8)}
    constants = {
        "w": rng.integers(-128, 128, (inputs, 3 * heads * width)).astype(np.int8),
        "b": some(rng, 3 * heads * width),
        "xs": np.array(0.01, np.float32),
        "ws": np.array(0.02, np.float32),
        "xz": np.array(120, np.uint8),
        "wz": np.array(0, np.int8),
    }
    names = ["x", "w", "b", "xs", "ws", "", "xz", "wz"]
    made = node("QAttention", names, ["y"], MS, num_heads=heads, unidirectional=seed % 2)
    path = save(tmp_path / "m.onnx", [made], feed, ["y"], constants, opset=17)
    agree(runtime(path, feed), lifted(path, feed), 1e-4)


def grouped(rng: Any, kind: str) -> tuple[list[str], dict[str, np.ndarray], dict[str, np.ndarray], dict]:
    """Names, feed, constants and options of a GroupQueryAttention: a prompt, or a step behind a past.

    Args:
        kind: "prompt", "grows" for a past that new keys are put behind, "room" for one with room for them.
    """
    batch, kv_heads, group, steps = (int(n) for n in rng.integers(1, 4, 4))
    heads, width, past = kv_heads * group, 16, 0
    if kind != "prompt":
        past, steps = int(rng.integers(1, 5)), 1 if batch > 1 else steps
    total = past + steps
    counts = np.full(batch, total - 1, np.int32)
    counts[1:] = rng.integers(steps - 1 if past else 0, total, batch - 1)
    names = ["q", "k", "v", "", "", "n", "t", "", "", "", "", ""]
    q, k, v = (some(rng, batch, steps, n * width) for n in (heads, kv_heads, kv_heads))
    feed = {"q": q, "k": k, "v": v}
    if rng.random() < 0.4:
        feed, names[1:3] = {"q": np.concatenate([q, k, v], 2)}, ["", ""]
    if past or rng.random() < 0.5:
        held = past + (steps + 2 if kind == "room" else 0)
        feed |= {n: some(rng, batch, kv_heads, held, width) for n in ("pk", "pv")}
        names[3:5] = "pk", "pv"
    feed["n"], limit = counts, {"t": np.array(total, np.int32)}
    options: dict[str, Any] = {"num_heads": heads, "kv_num_heads": kv_heads}
    constants: dict[str, np.ndarray] = {}
    if rng.random() < 0.5:
        feed |= limit
    else:
        constants |= limit
    if rng.random() < 0.6:
        constants |= {n: some(rng, 16, width // 2) for n in ("cos", "sin")}
        options |= {"do_rotary": 1, "rotary_interleaved": int(rng.integers(2))}
        names[7:9] = "cos", "sin"
        if rng.random() < 0.5:
            feed["at"] = rng.integers(0, 9, (batch, steps))
            names[9] = "at"
    if rng.random() < 0.3:
        feed["bias"] = some(rng, 1, heads, steps, total)
        names[10] = "bias"
    way = int(rng.integers(4))
    if way == 0:
        constants["sink"] = some(rng, heads)
        names[11] = "sink"
    options |= ({}, {"smooth_softmax": 1}, {"causal": 0, "softcap": 1.5},
                {"local_window_size": int(rng.integers(1, 4)), "scale": 0.7})[way]  # fmt: skip
    return names, feed, constants, options


@pytest.mark.parametrize("kind", ["prompt", "grows", "room"])
@pytest.mark.parametrize("seed", range(8))
def test_random_group_query_attention(seed: int, kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 36])
    names, feed, constants, options = grouped(rng, kind)
    while not names[-1]:
        names.pop()
    made = node("GroupQueryAttention", names, ["y", "k2", "v2"], MS, **options)
    path = save(tmp_path / "m.onnx", [made], feed, ["y", "k2", "v2"], constants, opset=17)
    thinflow.save(graph_of(path), tmp_path / "o.tflite")
    expected = runtime(path, feed)
    # What stands behind a sample's own keys, and queries there, are anything.
    batch, steps = feed["q"].shape[:2]
    keys = np.arange(expected[1].shape[2]) <= feed["n"][:, None]
    queries = np.arange(steps) <= feed["n"][:, None] if kind == "prompt" else np.ones((batch, steps), bool)
    for found in (lifted(path, feed), list(thinflow.run(tmp_path / "o.tflite", feed).values())):
        assert [x.shape for x in found] == [x.shape for x in expected]
        agree([expected[0][queries]], [found[0][queries]], 1e-4)
        agree(*([x.transpose(0, 2, 1, 3)[keys] for x in given[1:]] for given in (expected, found)), 1e-5)


N = np.zeros(1, np.int32)
X, W, B = np.zeros((2, 3, 4), np.float32), np.zeros((4, 12), np.float32), np.zeros(12, np.float32)


@pytest.mark.parametrize(
    ("op", "operands", "options", "said"),
    [
        ("Attention", [X, W, B], {"num_heads": 2, "do_rotary": 1}, "its option 'do_rotary' is 1"),
        ("Attention", [X, W, B], {"num_heads": 3}, "4 numbers are not 3 heads of equal size"),
        ("Attention", [X, W, B], {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 8]},
         "do not make up its 12 columns"),
        ("Attention", [X, W, B, np.zeros((2, 1, 9, 9), np.int32)], {"num_heads": 2},
         "its mask has 4 dimensions"),
        ("Attention", [X, W, B, np.zeros(8, np.int32)], {"num_heads": 2},
         "its mask is of a form that is not"),
        ("MultiHeadAttention", [X, X, X, None, None, None, None, None, np.zeros(1, np.int32)],
         {"num_heads": 2},
         "it has operand 8, which is not known here"),
        ("MultiHeadAttention", [X, X, X, None, None, None, np.zeros((2, 2, 1, 2), np.float32)],
         {"num_heads": 2},
         "keys of the past without values"),
        ("MultiHeadAttention", [X, np.zeros((2, 2, 3, 2), np.float32), np.zeros((2, 2, 3, 2), np.float32), B],
         {"num_heads": 2}, "biases for keys that are there by heads"),
        ("GroupQueryAttention", [X, X, X, None, None, N, N], {"num_heads": 2, "kv_num_heads": 2,
         "k_quant_type": "PER_TENSOR"}, "its option 'k_quant_type' is PER_TENSOR"),
        ("GroupQueryAttention", [X, X, X, None, None, N, N], {"num_heads": 3, "kv_num_heads": 2},
         "its 3 heads of queries do not share 2 heads of keys"),
        ("GroupQueryAttention", [X, X, X, X[None], None, N, N], {"num_heads": 2, "kv_num_heads": 2},
         "keys of the past without values"),
        ("GroupQueryAttention", [X, X[:, :1], X[:, :1], None, None, N, N],
         {"num_heads": 2, "kv_num_heads": 2}, "not as many new keys as queries"),
        ("RotaryEmbedding", [X, np.zeros(1, np.int64), W, W], {"scale": 2.0}, "its option 'scale' is 2.0"),
        ("RotaryEmbedding", [X, np.zeros(1, np.int64), W, W], {}, "its 4 numbers are not heads of 24"),
        ("RotaryEmbedding", [X, np.zeros(1, np.int64), W[:, :1], W[:, :1]], {"num_heads": 1,
         "rotary_embedding_dim": 4}, "it has 1 angles, 2 are needed"),
    ],
)  # fmt: skip
def test_what_is_refused(op: str, operands: list, options: dict, said: str, tmp_path: Path) -> None:
    feed = {f"x{n}": x for n, x in enumerate(operands) if x is not None}
    names = ["" if x is None else f"x{n}" for n, x in enumerate(operands)]
    path = save(tmp_path / "m.onnx", [node(op, names, ["y"], MS, **options)], feed, ["y"], opset=17)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)


@pytest.mark.parametrize("keys", [4, 2])
def test_the_last_query_sees_all_keys(keys: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    feed = {name: some(rng, 1, rows, 8) for name, rows in (("q", 3), ("k", keys), ("v", keys))}
    step = node("MultiHeadAttention", list(feed), ["y"], MS, num_heads=2, unidirectional=1)
    path = save(tmp_path / "m.onnx", [step], feed, ["y"], {}, opset=17)
    agree(runtime(path, feed), lifted(path, feed), 1e-5)


def test_masks_that_say_where_keys_begin_and_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    feed = {"x": some(rng, 2, 5, 4), "m": np.array([3, 5, 0, 2], np.int32)}
    weights = {"w": some(rng, 4, 24), "b": some(rng, 24)}
    step = node("Attention", ["x", "w", "b", "m"], ["y"], MS, num_heads=2)
    path = save(tmp_path / "m.onnx", [step], feed, ["y"], weights, opset=17)
    agree(runtime(path, feed), lifted(path, feed), 1e-5)


def test_what_masks_add_does_not_matter_without_one(tmp_path: Path) -> None:
    feed = {name: some(np.random.default_rng(7), 1, 3, 8) for name in "qkv"}
    step = node("MultiHeadAttention", list(feed), ["y"], MS, num_heads=2, mask_filter_value=-100.0)
    path = save(tmp_path / "m.onnx", [step], feed, ["y"], {}, opset=17)
    agree(runtime(path, feed), lifted(path, feed), 1e-5)
