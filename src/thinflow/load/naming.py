"""The names of a signature for the inputs and outputs of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from thinflow.formats.metagraph import Endpoint, Signature
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.types import TensorSpec
from thinflow.load.read_ops import behind_identity


def give_names(graph: Graph, signature: Signature) -> None:
    """Call inputs and outputs what the signature calls them, and declare them in its order.

    The names they had go on working as aliases. A name that cannot be a node's stays an alias of the old one;
    an output that is called like an input but is another value gets `_output` behind its name.
    """
    # All values first: the names by which they are found may be taken by others below.
    before = {name: graph.value(endpoint.value) for name, endpoint in signature.outputs.items()}
    fed = {name: graph.value(endpoint.value) for name, endpoint in signature.inputs.items()}
    # Nodes that are inputs or outputs are protected from renaming; each is
    # declared again when it has its name.
    graph.inputs, graph.outputs = [], []
    inputs: dict[str, Value] = {}
    for name, value in fed.items():
        endpoint = signature.inputs[name]
        _declare_shape(value, endpoint.spec)
        inputs[name] = _named(graph, name, value, endpoint)
        graph.inputs = list(inputs.values())
    sources = {name: _source(value, graph.inputs) for name, value in before.items()}
    inner = _not_ends(sources.values())
    outputs: list[Value] = []
    for name, value in sources.items():
        outputs.append(_output(graph, name, value, inputs, signature.outputs[name], inner))
        graph.outputs = outputs


def _not_ends(values: Iterable[Value]) -> set[Node]:
    """The nodes of some values that would not be seen to be outputs: what else they give is used, too."""
    counts = Counter(value.node for value in dict.fromkeys(values))
    return {node for node, count in counts.items() if count > 1 or any(v.uses for v in node.outputs)}


def _output(
    graph: Graph,
    name: str,
    value: Value,
    inputs: Mapping[str, Value],
    endpoint: Endpoint,
    inner: Collection[Node],
) -> Value:
    if name not in inputs:
        return _named(graph, name, value, endpoint, inner)
    if inputs[name] is value:
        return value
    return _named(graph, graph.unique_name(f"{name}_output"), value, endpoint, inner)


def _source(value: Value, inputs: list[Value]) -> Value:
    """The value behind nodes that only hold the place of an inlined call."""
    while value.node.origin and (behind := behind_identity(value)) is not None:
        # An output that is an input stays an Identity of it; one that waits for something is no mere place.
        if behind in inputs or value.node.control_inputs:
            break
        value = behind
    return value


def _named(graph: Graph, name: str, value: Value, endpoint: Endpoint, inner: Collection[Node] = ()) -> Value:
    """The value under its new name: its node renamed if it gives nothing else, or an Identity of it."""
    if not LEGAL_NAME.match(name):
        graph.aliases[name] = value.name
        return value
    former = value.name
    node = value.node
    # A node may only be renamed if its name means this one value, to all who know it.
    is_whole = value.port == 0 and all(v is value or not v.uses for v in node.outputs) and node not in inner
    if not is_whole or node.is_protected or (node.op == "Const" and value not in graph.inputs):
        element = value.dtype or endpoint.spec.dtype
        attrs = {} if element is None else {"T": element}
        _make_room(graph, name, None)
        node = graph.add("Identity", [value], name, attrs=attrs)
        node.origin = "freeze"
        node.output().spec = value.spec
    else:
        _make_room(graph, name, node)
        graph.rename(node, name)
        # Commands and scripts that use the node's own name go on working.
        graph.aliases[former] = name
    for alias in (endpoint.value, endpoint.value.removesuffix(":0")):
        # The name of a node wins over an alias.
        if alias not in graph:
            graph.aliases[alias] = node.name
    return node.output()


def _make_room(graph: Graph, name: str, owner: Node | None) -> None:
    """Rename whoever has a name already."""
    holder = graph.find(name)
    if holder is not None and holder is not owner:
        graph.rename(holder, graph.unique_name(f"{name}_inner"))


def _declare_shape(value: Value, spec: TensorSpec) -> None:
    """A placeholder that does not know its sizes takes those of the signature."""
    node = value.node
    if node.op != "Placeholder" or spec.shape is None:
        return
    declared = node.attrs.get("shape")
    if not isinstance(declared, ShapeAttr) or declared.dims is None:
        node.attrs["shape"] = ShapeAttr(spec.shape)
