"""TensorFlow.js models: graphs in JSON, and weights in files beside it."""

from __future__ import annotations

import base64
import json
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.errors import FormatError, ThinflowError
from thinflow.formats import recognise, tfjs

FLOAT = {"type": "DT_FLOAT"}
RNG = np.random.default_rng(0)


def shaped(*sizes: int) -> dict[str, Any]:
    return {"shape": {"dim": [{"size": str(n)} for n in sizes]}}


def text(*words: str) -> dict[str, Any]:
    return {"list": {"s": [base64.b64encode(w.encode()).decode() for w in words]}}


def placeholder(name: str, *sizes: int, kind: str = "DT_FLOAT") -> dict[str, Any]:
    return {"name": name, "op": "Placeholder", "attr": {"dtype": {"type": kind}, "shape": shaped(*sizes)}}


def constant(name: str, array: np.ndarray, kind: str = "DT_FLOAT") -> dict[str, Any]:
    sizes = {"dim": [{"size": str(n)} for n in array.shape]}
    value = {"tensor": {"dtype": kind, "tensorShape": sizes}}
    return {"name": name, "op": "Const", "attr": {"dtype": {"type": kind}, "value": value}}


def node(name: str, op: str, *inputs: str, **attrs: Any) -> dict[str, Any]:
    return {"name": name, "op": op, "input": list(inputs), "attr": attrs}


def quantized(array: np.ndarray, kind: str) -> tuple[np.ndarray, dict[str, Any]]:
    if kind == "float16":
        return array.astype(np.float16), {"dtype": kind, "original_dtype": "float32"}
    steps = np.iinfo(kind).max
    scale = float(array.max() - array.min()) / steps
    least = -round(float(-array.min()) / scale) * scale
    stored = np.rint((array - least) / scale).clip(0, steps).astype(kind)
    return stored, {"dtype": kind, "scale": scale, "min": least, "original_dtype": array.dtype.name}


def write(
    folder: Path,
    nodes: list[dict[str, Any]],
    weights: dict[str, np.ndarray],
    *,
    shard: int = 0,
    quantize: str = "",
    **more: Any,
) -> Path:
    """model.json and its weights, in files of `shard` bytes."""
    blob, entries = b"", []
    for name, array in weights.items():
        kind = "string" if array.dtype == object else array.dtype.name
        entry = {"name": name, "shape": list(array.shape), "dtype": kind}
        if kind == "string":
            blob += b"".join(len(t).to_bytes(4, "little") + t for t in array.ravel().tolist())
        else:
            stored = array
            if quantize and kind in ("float32", "int32"):
                stored, entry["quantization"] = quantized(array, quantize)
            blob += stored.tobytes()
        entries.append(entry)
    size = shard or max(len(blob), 1)
    paths = []
    for start in range(0, len(blob), size):
        paths.append(f"group1-shard{start // size + 1}of{-(-len(blob) // size)}.bin")
        (folder / paths[-1]).write_bytes(blob[start : start + size])
    content = {
        "format": "graph-model",
        "generatedBy": "2.15.0",
        "modelTopology": {"node": nodes, "library": {}, "versions": {"producer": 1645}},
        "weightsManifest": [{"paths": paths, "weights": entries}],
        **more,
    }
    (folder / "model.json").write_text(json.dumps(content))
    return folder / "model.json"


W = RNG.standard_normal((3, 3, 2, 4)).astype(np.float32)
B = RNG.standard_normal(4).astype(np.float32)
D = RNG.standard_normal((4, 5)).astype(np.float32)
LAYER = {
    "strides": {"list": {"i": ["1", "1", "1", "1"]}},
    "padding": {"s": base64.b64encode(b"SAME").decode()},
}
NET = [
    placeholder("x", -1, 6, 6, 2),
    constant("w", W),
    constant("b", B),
    constant("d", D),
    constant("axes", np.int32([1, 2]), "DT_INT32"),
    node(
        "conv", "_FusedConv2D", "x", "w", "b", T=FLOAT, num_args={"i": "1"}, **LAYER,
        fused_ops=text("BiasAdd", "Relu6"), epsilon={"f": 0.0}, TArgs={"list": {"type": ["DT_FLOAT"]}},
    ),
    node("mean", "Mean", "conv", "axes", T=FLOAT, Tidx={"type": "DT_INT32"}, keep_dims={"b": False}),
    node("dense", "MatMul", "mean", "d", T=FLOAT, transpose_a={"b": False}, transpose_b={"b": False}),
    node("y", "Softmax", "dense", T=FLOAT),
]  # fmt: skip
WEIGHTS = {"w": W, "b": B, "d": D, "axes": np.int32([1, 2])}
SIGNATURE = {
    "inputs": {"image": {"name": "x:0", "dtype": "DT_FLOAT", "tensorShape": {"dim": [{"size": "-1"}]}}},
    "outputs": {"classes": {"name": "y:0", "dtype": "DT_FLOAT"}},
}
X = RNG.standard_normal((2, 6, 6, 2)).astype(np.float32)


def plain(folder: Path) -> np.ndarray:
    """The same network, made here."""
    graph = thinflow.Graph()
    from thinflow.ir.attrs import ShapeAttr
    from thinflow.ir.types import FLOAT as KIND
    from thinflow.ir.types import INT32

    x = graph.add("Placeholder", [], "x", attrs={"dtype": KIND, "shape": ShapeAttr((None, 6, 6, 2))}).output()
    attrs = {"T": KIND, "strides": (1, 1, 1, 1), "padding": b"SAME"}
    conv = graph.add("Conv2D", [x, graph.constant(W, "w")], attrs=attrs).output()
    biased = graph.add("BiasAdd", [conv, graph.constant(B, "b")], attrs={"T": KIND}).output()
    bent = graph.add("Relu6", [biased], attrs={"T": KIND}).output()
    axes = graph.constant(np.int32([1, 2]), "axes")
    mean = graph.add("Mean", [bent, axes], attrs={"T": KIND, "Tidx": INT32}).output()
    dense = graph.add("MatMul", [mean, graph.constant(D, "d")], attrs={"T": KIND}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Softmax", [dense], "y", attrs={"T": KIND}).output()]
    (y,) = thinflow.Session(graph, "reference").run(["y"], {"x": X})
    del folder
    return y


@pytest.mark.parametrize("shard", [0, 7, 64])
def test_a_network(shard: int, tmp_path: Path) -> None:
    path = write(tmp_path, NET, WEIGHTS, shard=shard, signature=SIGNATURE)
    graph = thinflow.load(path)
    assert [v.name for v in graph.inputs] == ["x"]
    assert [v.name for v in graph.outputs] == ["y"]
    # What the converter fused is as TensorFlow writes it, and ends under the old name.
    assert [n.op for n in graph if n.op not in ("Const", "Placeholder")] == [
        *("Conv2D", "BiasAdd", "Relu6", "Mean", "MatMul", "Softmax"),
    ]
    assert graph.node("conv").op == "Relu6"
    session = thinflow.Session(path, "reference")
    (y,) = session.run(["classes"], {"image": X})
    np.testing.assert_array_equal(y, plain(tmp_path))
    assert recognise(tmp_path).name == recognise(path).name == "tfjs"
    # The weights are files of their own, and the model is as large as all together.
    whole = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert thinflow.summarize(path).file_bytes == whole > Path(path).stat().st_size
    np.testing.assert_array_equal(thinflow.Session(tmp_path, "reference").run(["y"], {"x": X})[0], y)


def test_models_from_before_version_1(tmp_path: Path) -> None:
    """A GraphDef whose constants are in files beside it: by itself it would be a network of zeros."""
    from google.protobuf import json_format

    from thinflow.wire import protos

    path = write(tmp_path, NET, WEIGHTS, shard=64)
    content = json.loads(path.read_text())
    path.unlink()
    message = json_format.ParseDict(content["modelTopology"], protos.message("GraphDef")())
    (tmp_path / "tensorflowjs_model.pb").write_bytes(message.SerializeToString())
    (tmp_path / "weights_manifest.json").write_text(json.dumps(content["weightsManifest"]))
    for given in (tmp_path, tmp_path / "tensorflowjs_model.pb"):
        (y,) = thinflow.Session(given, "reference").run(["y"], {"x": X})
        np.testing.assert_array_equal(y, plain(tmp_path))


@pytest.mark.parametrize(("kind", "most"), [("uint8", 0.05), ("uint16", 1e-3), ("float16", 1e-2)])
def test_quantized_weights(kind: str, most: float, tmp_path: Path) -> None:
    whole = kind != "float16"
    nodes = NET if whole else NET[:4]
    weights = {k: v for k, v in WEIGHTS.items() if whole or v.dtype == np.float32}
    graph = thinflow.load(write(tmp_path, nodes, weights, quantize=kind))
    tensor = graph.node("w").tensor
    assert tensor is not None
    assert tensor.numpy().dtype == np.float32
    assert 0 < np.abs(tensor.numpy() - W).max() < most * np.abs(W).max()
    if whole:
        axes = graph.node("axes").tensor
        assert axes is not None
        assert axes.dtype.name == "int32"
        assert axes.numpy().tolist() == [1, 2]


def test_an_app_gets_a_lite_model_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, NET, WEIGHTS, signature=SIGNATURE)
    thinflow.convert(path, tmp_path / "m.tflite", shapes={"x": (1, 6, 6, 2)})
    (y,) = thinflow.Session(tmp_path / "m.tflite").run(None, {"x": X[:1]})
    np.testing.assert_allclose(y, plain(tmp_path)[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["Prelu", "FusedDepthwiseConv2dNative", "_FusedMatMul"])
def test_what_the_converter_fuses(op: str, tmp_path: Path) -> None:
    alpha = RNG.random(2).astype(np.float32)
    x = RNG.standard_normal((1, 6, 6, 2)).astype(np.float32)
    if op == "Prelu":
        nodes = [placeholder("x", 1, 6, 6, 2), constant("a", alpha), node("y", "Prelu", "x", "a")]
        weights, expected = {"a": alpha}, np.where(x > 0, x, alpha * x)
    elif op == "_FusedMatMul":
        x, w, bias = x.reshape(36, 2), W[0, 0], B
        nodes = [placeholder("x", 36, 2), constant("w", w), constant("b", bias)]
        attrs = {"T": FLOAT, "num_args": {"i": "1"}, "fused_ops": text("BiasAdd", "LeakyRelu")}
        nodes += [node("y", op, "x", "w", "b", **attrs, leakyrelu_alpha={"f": 0.5})]
        total = x @ w + bias
        weights, expected = {"w": w, "b": bias}, np.where(total > 0, total, total * 0.5)
    else:
        w = RNG.standard_normal((1, 1, 2, 1)).astype(np.float32)
        nodes = [placeholder("x", 1, 6, 6, 2), constant("w", w), constant("a", alpha)]
        attrs = {"T": FLOAT, "num_args": {"i": "1"}, "fused_ops": text("NoOp", "Prelu"), **LAYER}
        nodes += [node("y", op, "x", "w", "a", **attrs)]
        total = x * w[0, 0, :, 0]
        weights, expected = {"w": w, "a": alpha}, np.where(total > 0, total, alpha * total)
    (y,) = thinflow.Session(write(tmp_path, nodes, weights), "reference").run(["y"], {"x": x})
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["BiasAdd", "_FusedMatMul"])
def test_sums_that_the_converter_calls_biases(op: str, tmp_path: Path) -> None:
    """As of an LSTM's two products: TensorFlow's BiasAdd takes a vector alone."""
    x, more = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    w = RNG.standard_normal((4, 4)).astype(np.float32)
    nodes = [placeholder("x", 3, 4), placeholder("more", 3, 4), constant("w", w)]
    if op == "BiasAdd":
        nodes += [node("dense", "MatMul", "x", "w", T=FLOAT), node("y", op, "dense", "more", T=FLOAT)]
    else:
        attrs = {"T": FLOAT, "num_args": {"i": "1"}, "fused_ops": text("BiasAdd")}
        nodes += [node("y", op, "x", "w", "more", **attrs)]
    session = thinflow.Session(write(tmp_path, nodes, {"w": w}), "reference")
    (y,) = session.run(["y"], {"x": x, "more": more})
    np.testing.assert_allclose(y, x @ w + more, rtol=1e-5, atol=1e-6)


def test_types_that_its_files_do_not_have(tmp_path: Path) -> None:
    words, wide = np.array([b"a", b"", b"see"], object), np.int32([3, -4])
    nodes = [
        constant("t", words, "DT_STRING"),
        constant("n", wide, "DT_INT64"),
        constant("f", wide > 0, "DT_BOOL"),
    ]
    nodes += [node("y", "Identity", "n", T={"type": "DT_INT64"})]
    graph = thinflow.load(write(tmp_path, nodes, {"t": words, "n": wide, "f": wide > 0}))
    tensors = [graph.node(n).tensor for n in "tnf"]
    assert [t.numpy().tolist() for t in tensors if t] == [words.tolist(), [3, -4], [True, False]]
    assert [t.dtype.name for t in tensors if t] == ["string", "int64", "bool"]


def test_functions_have_their_weights(tmp_path: Path) -> None:
    kept = np.float32([2, 3])
    inner = [
        {**constant("twice/c", kept), "input": []},
        node("mul", "Mul", "a", "twice/c:output:0", T=FLOAT),
    ]
    function = {
        "signature": {
            "name": "twice",
            "inputArg": [{"name": "a", "type": "DT_FLOAT"}],
            "outputArg": [{"name": "b", "type": "DT_FLOAT"}],
        },
        "nodeDef": inner,
        "ret": {"b": "mul:z:0"},
    }
    call = {"Tin": {"list": {"type": ["DT_FLOAT"]}}, "Tout": {"list": {"type": ["DT_FLOAT"]}}}
    nodes = [
        placeholder("x", 2),
        node("z", "PartitionedCall", "x", f={"func": {"name": "same"}}, **call),
        node("y", "PartitionedCall", "z", f={"func": {"name": "twice"}}, **call),
    ]
    # A function that gives back what it is given has no nodes.
    empty = {"signature": {**function["signature"], "name": "same"}, "ret": {"b": "a"}}
    path = write(tmp_path, nodes, {"twice/c": kept})
    content = json.loads(path.read_text())
    content["modelTopology"]["library"] = {"function": [function, empty]}
    path.write_text(json.dumps(content))
    (y,) = thinflow.Session(path, "reference").run(["y"], {"x": np.float32([5, 7])})
    assert y.tolist() == [10, 21]


@pytest.mark.parametrize("era", [1, 2])
def test_tables_are_filled_by_the_initializer(era: int, tmp_path: Path) -> None:
    """TensorFlow 2 hands the table over by a number, and calls outputs of both graphs `Identity`; from a
    SavedModel of TensorFlow 1 both graphs have the table itself, and constants."""
    keys, values = np.array([b"a", b"b"], object), np.int32([4, 9])
    kinds = {"key_dtype": {"type": "DT_STRING"}, "value_dtype": {"type": "DT_INT64"}}
    find = {"Tin": {"type": "DT_STRING"}, "Tout": {"type": "DT_INT64"}}
    nodes = [
        placeholder("words", 2, kind="DT_STRING"),
        placeholder("table", kind="DT_RESOURCE"),
        constant("none", np.int32(-1), "DT_INT64"),
        node("find", "LookupTableFindV2", "table" if era > 1 else "hash", "words", "none", **find),
        node("Identity", "Identity", "find", T={"type": "DT_INT64"}),
    ]
    if era == 1:
        nodes[1] = node("hash", "HashTableV2", **kinds)
    start = [
        node("hash", "HashTableV2", **kinds),
        node("done", "NoOp", "^Identity"),
        node("Identity", "Identity", "hash", "^fill", T={"type": "DT_RESOURCE"}),
        constant("keys", keys, "DT_STRING"),
        constant("values", values, "DT_INT64"),
        node("fill", "LookupTableImportV2", "hash", "keys", "values", **find),
    ]
    signature = {
        "inputs": {"words": {"name": "words:0"}, "t": {"name": "table:0", "resourceId": 1}},
        "outputs": {"y": {"name": "Identity:0"}},
    }
    made = {"initializerSignature": {"outputs": {"hash": {"name": "Identity:0", "resourceId": 1}}}}
    if era == 1:
        made = {}
        del signature["inputs"]["t"]
    path = write(
        tmp_path,
        nodes,
        {"none": np.int32(-1), "keys": keys, "values": values},
        signature=signature,
        modelInitializer={"node": start},
        **made,
    )
    (y,) = thinflow.Session(path, "reference").run(["y"], {"words": np.array([b"b", b"?"], object)})
    assert y.tolist() == [9, -1]


# --- models that are refused --------------------------------------------------------------------------------


def changed(path: Path, change: Any) -> str:
    """What is said of a model after a change of its JSON."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError) as caught:
        tfjs.load(path)
    return str(caught.value)


def entry(content: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return content["weightsManifest"][0]["weights"][number]


CHANGES = {
    "there is no 'modelTopology' in it": lambda c: c.pop("modelTopology"),
    "the config of a layer has no class": lambda c: c.update(modelTopology={"model_config": {}}),
    "the manifest of weights is no list": lambda c: c.update(weightsManifest={}),
    "the manifest of weights lacks 'paths'": lambda c: c["weightsManifest"][0].pop("paths"),
    "paths of weights are no texts": lambda c: c["weightsManifest"][0].update(paths=[3]),
    "would lie outside of its folder": lambda c: c["weightsManifest"][0].update(paths=["../w.bin"]),
    "which is missing": lambda c: c["weightsManifest"][0].update(paths=["other.bin"]),
    "has no element type 'float8'": lambda c: entry(c).update(dtype="float8"),
    "its shape is no list of sizes": lambda c: entry(c).update(shape=[-3]),
    "makes no sense": lambda c: entry(c).update(shape=[2**30, 2**30]),
    "bytes or more, the files hold": lambda c: entry(c, 3).update(shape=[70]),
    "belong to another model": lambda c: c["weightsManifest"][0]["weights"].pop(),
    "two weights have one name": lambda c: entry(c, 1).update(name="w"),
    "it is quantized as 'int4'": lambda c: entry(c).update(quantization={"dtype": "int4"}),
    "lacks 'scale' or 'min'": lambda c: entry(c).update(quantization={"dtype": "uint8", "scale": 1}),
    "its manifest of weights does not have it": lambda c: entry(c).update(name="v"),
    "its nodes are no list of objects": lambda c: c["modelTopology"].update(node=[3]),
    "its topology is no GraphDef": lambda c: c["modelTopology"]["node"][0].update(attr=[1]),
    "'MaxPool' is fused into it": lambda c: c["modelTopology"]["node"][5]["attr"].update(
        fused_ops=text("MaxPool")
    ),
    "where 2 are needed": lambda c: c["modelTopology"]["node"][5]["attr"].pop("num_args"),
    "more than what is fused": lambda c: c["modelTopology"]["node"][5]["attr"].update(fused_ops=text("Relu")),
    "fewer operands": lambda c: c["modelTopology"]["node"][5]["attr"].update(
        fused_ops=text("BiasAdd", "Prelu")
    ),
    "is no base64": lambda c: c["modelTopology"]["node"][5]["attr"].update(
        fused_ops={"list": {"s": ["!"]}}
    ),
    "DT_WIDE is no element type": lambda c: c["modelTopology"]["node"][1]["attr"]["value"]["tensor"].update(
        dtype="DT_WIDE"
    ),
    "names 'z:0', which is not in the graph": lambda c: c["signature"]["outputs"]["classes"].update(
        name="z:0"
    ),
    "its initializer": lambda c: c.update(modelInitializer={"node": [3]}, signature={"inputs": {"a": 3}}),
    "a table that nothing fills": lambda c: c.update(
        modelInitializer={"node": [{"name": "h"}]}, signature={"inputs": {"t": {"resourceId": 1}}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", CHANGES)
def test_damage_is_named(said: str, tmp_path: Path) -> None:
    assert said in changed(write(tmp_path, NET, WEIGHTS, signature=SIGNATURE), CHANGES[said])


def test_files_that_are_cut_short(tmp_path: Path) -> None:
    path = write(tmp_path, NET, WEIGHTS, shard=100)
    shard = sorted(tmp_path.glob("*.bin"))[0]
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(FormatError, match=r"the files hold \d+(.|\n)*missing a part"):
        tfjs.load(path)
    path.write_text(path.read_text()[:-200])
    with pytest.raises(FormatError, match="not valid JSON"):
        tfjs.load(path)
    path.write_text('{"modelTopology": ' + "[" * 100_000)
    with pytest.raises(FormatError, match="not valid JSON"):
        tfjs.load(path)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = write(tmp_path / "model", NET, WEIGHTS)
    shard = next((tmp_path / "model").glob("*.bin"))
    shard.rename(tmp_path / "elsewhere.bin")
    shard.symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(FormatError, match="is a link out of the folder"):
        tfjs.load(path)


def test_random_damage_is_refused_or_read(tmp_path: Path) -> None:
    path = write(tmp_path, NET, WEIGHTS, signature=SIGNATURE)
    good, chance = path.read_text(), random.Random(0)
    junk = ["3", "null", "[]", "{}", '"x"', "-1", "1e99"]
    for _ in range(300):
        content = json.loads(good)
        place: Any = content
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = chance.choice(list(keys))
            if chance.random() < 0.3 or not isinstance(place[key], dict | list):
                place[key] = json.loads(chance.choice(junk))
                break
            place = place[key]
        path.write_text(json.dumps(content))
        with suppress(ThinflowError):
            tfjs.load(path)


# --- real networks ------------------------------------------------------------------------------------------

SHARED = Path(os.environ.get("THINFLOW_SHARED", "../shared"))
NAMES = ("autoencoder", "mtcnn", "t2o_fc-layers")
FROZEN = [*(SHARED / "zoo" / "pb").glob("*.pb"), *(SHARED / "models" / f"{n}.pb" for n in NAMES)]


@pytest.mark.parametrize("file", sorted(FROZEN), ids=lambda p: p.stem)
def test_frozen_networks_as_the_converter_writes_them(file: Path, tmp_path: Path) -> None:
    """A GraphDef as protobuf says it in JSON, its constants without their elements."""
    from google.protobuf import json_format

    from thinflow.wire import protos

    graph = thinflow.load(file)
    content = json_format.MessageToDict(protos.parse("GraphDef", file.read_bytes()))
    weights: dict[str, np.ndarray] = {}
    for one in content["node"]:
        tensor = graph.node(one["name"]).tensor if one["name"] in graph else None
        if one["op"] == "Const" and tensor is not None:
            array = tensor.numpy()
            weights[one["name"]] = array.astype(np.int32) if array.dtype == np.int64 else array
            value = one["attr"]["value"]["tensor"]
            one["attr"]["value"]["tensor"] = {k: value[k] for k in ("dtype", "tensorShape") if k in value}
    content["node"] = [n for n in content["node"] if n["op"] != "Const" or n["name"] in weights]
    made = thinflow.load(
        write(tmp_path, content["node"], weights, shard=50_000),
        outputs=[v.name for v in graph.outputs],
        inputs=[v.name for v in graph.inputs],
    )
    rng = np.random.default_rng(0)
    feed = {
        v.name: rng.standard_normal([n or 1 for n in v.shape or ()]).astype(np.float32) for v in graph.inputs
    }
    for a, b in zip(*(thinflow.Session(g, "reference").run(None, feed) for g in (graph, made)), strict=True):
        np.testing.assert_array_equal(a, b)
