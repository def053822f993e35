"""TensorFlow.js models: model.json, a GraphDef in JSON, and the files of weights beside it.

Of 2018, before version 1: tensorflowjs_model.pb, the GraphDef, and weights_manifest.json.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats import graphdef
from thinflow.formats.files import map_file
from thinflow.formats.foreign import beside
from thinflow.formats.format import HEAD_BYTES, Format, Sample
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, dtype
from thinflow.wire import protos

NAME = "model.json"
_OLD, _OLD_LIST = "tensorflowjs_model.pb", "weights_manifest.json"
_KEYS = (b'"modelTopology"', b'"weightsManifest"', b'"tfjs-')
_MOST_BYTES = 1 << 29
"""Of the JSON, which holds no weights: half a gigabyte is far beyond any model."""
_HINT = "the file is damaged, or not all of it is there; fetch the model again"


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph of a TensorFlow.js graph model; weights are views of their files where they can be.

    Args:
        path: model.json, or of an old model the .pb file, or the folder that holds it.

    Raises:
        FormatError: a damaged model, weights that are missing or elsewhere, or a model of layers.
    """
    file = _file(Path(path))
    try:
        graph = _graph(_old_content(file) if file.name == _OLD else _content(file), file)
    except FormatError as error:
        placed = error if error.where.startswith(os.fspath(file)) else error.at(os.fspath(file))
        raise FormatError(placed.problem, placed.where, placed.hint or _HINT) from error
    graph.path = os.fspath(path)
    return graph


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    return path / (NAME if (path / NAME).is_file() else _OLD)


def _json(data: memoryview) -> Any:
    if data.nbytes > _MOST_BYTES:
        raise FormatError(f"its JSON has {data.nbytes} bytes, which is too much")
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not valid JSON: {error}") from error


def _old_content(file: Path) -> dict[str, Any]:
    """What model.json would hold of a model from before it."""
    from google.protobuf import json_format

    topology = json_format.MessageToDict(protos.parse("GraphDef", map_file(file)))
    manifest = _json(map_file(beside(file, _OLD_LIST), unpack=False))
    return {"modelTopology": {"node": [], **topology}, "weightsManifest": manifest}


def _content(file: Path) -> dict[str, Any]:
    content = _json(map_file(file))
    if not isinstance(content, dict) or not isinstance(content.get("modelTopology"), dict):
        raise FormatError("there is no 'modelTopology' in it")
    return content


def _graph(content: dict[str, Any], file: Path) -> Graph:
    topology = content["modelTopology"]
    if not isinstance(topology.get("node"), list):
        return _graph_of_layers(content, file)
    start = content.get("modelInitializer")
    if isinstance(start, dict) and start.get("node"):
        try:
            topology = _with_initializer(content, topology, start)
        except (AttributeError, KeyError, TypeError) as error:
            raise FormatError("its initializer, or the signature of that, is damaged") from error
    weights = _weights(content, file)
    graph = graphdef.from_message(_message(topology, weights))
    for node in graph:
        if node.op == "Const" and node.name in weights:
            node.attrs["value"] = weights[node.name]
    _sign(graph, content)
    return graph


def _weights(content: dict[str, Any], file: Path) -> dict[str, Tensor]:
    from thinflow.formats._tfjs_weights import read_weights

    manifest = content.get("weightsManifest", [])
    return read_weights(manifest, lambda name: map_file(beside(file, name), unpack=False))


def _graph_of_layers(content: dict[str, Any], file: Path) -> Graph:
    # Late, as layers need numpy.
    from thinflow.formats._tfjs_layers import graph_of_layers

    topology = content["modelTopology"]
    if not {"model_config", "class_name"} & topology.keys():
        raise FormatError("its 'modelTopology' is neither a graph nor a model of Keras layers")
    graph = graph_of_layers(topology, _weights(content, file), file)
    graph.facts["producer"] = str(content.get("generatedBy") or "TensorFlow.js")[:60]
    return graph


def _message(topology: dict[str, Any], weights: dict[str, Tensor]) -> Any:
    """The GraphDef, with the weights of functions in it; those of the graph itself stay in `weights`."""
    from google.protobuf import json_format

    from thinflow.formats._tfjs_nodes import Unfuser
    from thinflow.formats._tfjs_weights import constants

    library = topology.get("library")
    functions = library.get("function") if isinstance(library, dict) else None
    parts = [topology, *(functions if isinstance(functions, list) else [])]
    for key, part in zip(["node", *["nodeDef"] * (len(parts) - 1)], parts, strict=True):
        # A function that gives back what it is given has no nodes.
        nodes = part.get(key, [] if key == "nodeDef" else None) if isinstance(part, dict) else None
        if not isinstance(nodes, list) or not all(isinstance(n, dict) for n in nodes):
            raise FormatError("its nodes are no list of objects")
        part[key] = Unfuser(nodes).nodes()
        for node in constants(part[key]):
            _fill(node, weights, in_function=key != "node")
    try:
        return json_format.ParseDict(topology, protos.message("GraphDef")(), ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"its topology is no GraphDef: {str(error)[:200]}") from error


def _fill(node: dict[str, Any], weights: dict[str, Tensor], *, in_function: bool) -> None:
    """Give a constant its weight, in the type that it states."""
    from thinflow.formats._tfjs_weights import as_type

    name = str(node.get("name"))
    value = _inner(node, "attr", "value", "tensor")
    content = set(value) - {"dtype", "tensorShape", "versionNumber"}
    # Elements in the JSON itself, which some writers leave there.
    if content:
        return
    if name not in weights:
        raise FormatError("its manifest of weights does not have it", f"constant '{name}'")
    stated = value.get("dtype", "DT_INVALID")
    try:
        weights[name] = tensor = as_type(weights[name], _type(stated))
    except FormatError as error:
        raise error.at(f"constant '{name}'") from error
    if not in_function:
        return
    if tensor.dtype.name == "string":
        texts = [base64.b64encode(t).decode() for t in tensor.numpy().ravel().tolist()]
        value["stringVal"] = texts
    else:
        value["tensorContent"] = base64.b64encode(tensor.numpy().tobytes()).decode()


def _inner(node: dict[str, Any], *keys: str) -> dict[str, Any]:
    """An object inside of others, made where it is missing."""
    for key in keys:
        inner = node.setdefault(key, {})
        if not isinstance(inner, dict):
            raise FormatError(f"'{key}' of a constant is no object")
        node = inner
    return node


def _type(stated: Any) -> DType:
    from google.protobuf.descriptor import EnumDescriptor

    kinds: EnumDescriptor = protos.message("AttrValue").DESCRIPTOR.fields_by_name["type"].enum_type
    number = kinds.values_by_name.get(str(stated))
    if number is None:
        raise FormatError(f"{stated!s:.40} is no element type")
    return dtype(number.number)


def _with_initializer(
    content: dict[str, Any], topology: dict[str, Any], start: dict[str, Any]
) -> dict[str, Any]:
    """The graph and the one that fills its tables, which the converter kept apart, as one.

    Inputs of the graph that stand for a table have its number, and so have outputs of the other.
    """
    made = content.get("initializerSignature") or {}
    others, renamed = _apart([n for n in start["node"] if isinstance(n, dict)], topology["node"])
    tables = {
        v.get("resourceId"): _instead(v.get("name"), renamed) for v in (made.get("outputs") or {}).values()
    }
    asked = (content.get("signature") or {}).get("inputs") or {}
    numbers = {key: v.get("resourceId") for key, v in asked.items() if v.get("resourceId") is not None}
    if any(tables.get(n) is None for n in numbers.values()):
        raise FormatError("an input is a table that nothing fills")
    stands = {asked[k]["name"].removesuffix(":0"): tables[n].removesuffix(":0") for k, n in numbers.items()}
    for key in numbers:
        del asked[key]
    own = [n for n in topology["node"] if n.get("name") not in stands]
    for node in own:
        node["input"] = [_instead(name, stands) for name in node.get("input") or []]
    return topology | {"node": [*others, *own]}


def _apart(
    nodes: list[dict[str, Any]], own: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The initializer's nodes under names that the graph does not have, and which they got.

    Tables and constants of one name are the same in both: older converters cut both out of one graph, and
    the manifest has one weight for them.
    """
    from thinflow.formats._tfjs_nodes import free_name

    taken = {str(n.get("name")): str(n.get("op")) for n in own}
    shared, renamed = set[str](), dict[str, str]()
    names = {*taken, *(str(n.get("name")) for n in nodes)}
    for node in nodes:
        name, op = str(node.get("name")), str(node.get("op"))
        if taken.get(name) == op and (op == "Const" or op.startswith("HashTable")):
            shared.add(name)
        elif name in taken and op == "Const":
            raise FormatError(f"its initializer and its graph have a weight '{name[:200]}' each")
        elif name in taken:
            renamed[name] = free_name(f"initializer/{name}", names)
    kept = [n for n in nodes if str(n.get("name")) not in shared]
    for node in kept:
        node["name"] = renamed.get(str(node.get("name")), node.get("name"))
        node["input"] = [_instead(name, renamed) for name in node.get("input") or []]
    return kept, renamed


def _instead(name: str, stands: dict[str, str]) -> str:
    mark = "^" if name.startswith("^") else ""
    plain, colon, port = name.removeprefix("^").partition(":")
    if plain not in stands:
        return name
    return mark + stands[plain] + (colon + port if port not in ("", "0") else "")


def _sign(graph: Graph, content: dict[str, Any]) -> None:
    """Set inputs and outputs by the model's signature, and its names for them."""
    kept = content.get("userDefinedMetadata")
    older = kept.get("signature") if isinstance(kept, dict) else None
    signature = content.get("signature") or older
    if not isinstance(signature, dict):
        return
    sides = []
    for side in ("inputs", "outputs"):
        entries = signature.get(side)
        values = []
        for key, entry in entries.items() if isinstance(entries, dict) else ():
            name = entry.get("name") if isinstance(entry, dict) else None
            plain = str(name).removesuffix(":0")
            node = graph.find(plain.partition(":")[0])
            if node is None or node.is_missing:
                raise FormatError(f"its signature names '{name}', which is not in the graph")
            values.append(graph.value(plain))
            if key != plain:
                graph.aliases.setdefault(key, plain)
        sides.append(list(dict.fromkeys(values)))
    graph.inputs, graph.outputs = sides


def _recognise(sample: Sample) -> bool:
    old = sample.path / _OLD if sample.is_folder else sample.path
    if old.name == _OLD and old.is_file() and (old.parent / _OLD_LIST).is_file():
        return True
    if sample.is_folder:
        file = sample.path / NAME
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
    else:
        head = sample.head + sample.tail
    # A byte order mark, which some editors put in front, and blanks.
    is_json = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return is_json and any(key in head for key in _KEYS)


FORMAT = Format(
    name="tfjs",
    title="a TensorFlow.js model",
    recognise=_recognise,
    load=load,
    rank=15,
    framework="TensorFlow.js",
)


def shard_bytes(path: str | os.PathLike[str]) -> int:
    """Bytes of the files of weights that a model.json names.

    Raises:
        FormatError: one is missing, or lies outside of the model's folder; or it is no such file.
    """
    file = Path(path)
    groups = _content(file).get("weightsManifest", [])
    named = [str(name) for group in groups for name in group["paths"]]
    return sum(os.path.getsize(beside(file, name)) for name in dict.fromkeys(named))
