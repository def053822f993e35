"""Recognition of known rewrites in the differences of two graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from thinflow.compare.diff.changes import Changes
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors, runnable
from thinflow.ops.traits import Trait, has

_AFFINE = Trait.MULTIPLY | Trait.ADD | Trait.SUBTRACT | Trait.DIVIDE | Trait.BIAS_ADD


def computes_nothing(node: Node) -> bool:
    """True if a node hands its input on, checks something or only stands for others to wait for."""
    return node.op == "NoOp" or has(node.op, Trait.PASSES_THROUGH | Trait.ASSERT)


KINDS = {
    "batch_norms": "batch norm",
    "arithmetic": "multiplication or addition",
    "constants": "constant expression",
    "passing": "node that passes its input on",
    "unused": "unused node",
    "duplicates": "duplicate",
    "stored": "weight",
}


@brief_repr
@dataclass
class Explanation:
    """Differences that known rewrites explain.

    Attributes:
        removed, added: nodes whose coming and going is explained, by the kind of rewrite (a key of `KINDS`).
        layers: layers of the first graph that took in what was folded, by kind.
        ops: changes of the op, as (before, after) -> how often.
    """

    removed: dict[Node, str] = field(default_factory=dict)
    added: dict[Node, str] = field(default_factory=dict)
    layers: dict[str, set[Node]] = field(default_factory=dict)
    ops: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, kind: str) -> int:
        """Number of nodes of the first graph that went this way, but for constants that went with them."""
        return sum(k == kind and n.op != "Const" for n, k in self.removed.items())


def explain(a: Graph, b: Graph, changes: Changes) -> Explanation:
    """Find the marks of rewrites, and mark the weights they explain as folded in `changes`."""
    found = Explanation()
    constants = constant_nodes(a) | constant_nodes(b)
    # In this order: each step looks at what those before left open, and folds are told by what is constant.
    _unused(a, changes, found)
    _duplicates(changes, found)
    _folds(changes, found, constants)
    _constants(changes, found, constants)
    _stored(changes, found, constants)
    _companions(changes, found)
    found.ops.update((c.text.split(" -> ")[0], c.text.split(" -> ")[1]) for c in changes.of("op"))
    _mark_weights(changes, found)
    return found


def _unused(a: Graph, changes: Changes, found: Explanation) -> None:
    """Nodes no output needs, and those that pass on their input or only wait."""
    used = ancestors(v.node for v in a.outputs) if a.outputs else set(a)
    for node in changes.removed:
        if node not in used:
            found.removed[node] = "unused"
        elif computes_nothing(node):
            found.removed[node] = "passing"


def _duplicates(changes: Changes, found: Explanation) -> None:
    """Nodes with a sibling of one op, attributes and inputs that stayed."""
    kept = {_signature(n) for n in changes.match.pairs if n.inputs}
    for node in changes.removed:
        if node not in found.removed and node.inputs and _signature(node) in kept:
            found.removed[node] = "duplicates"


def _signature(node: Node) -> tuple[str, tuple[object, ...]]:
    return node.op, tuple(node.inputs)


def _folds(changes: Changes, found: Explanation, constants: set[Node]) -> None:
    """Norms and arithmetic with constants that went into the weights of the layer before them."""
    twin = changes.match.pairs
    altered = {w.a for w in changes.weights}
    for node in changes.removed:
        if node in found.removed or not has(node.op, Trait.BATCH_NORM | _AFFINE):
            continue
        layer = _layer_before(node, twin, constants)
        if layer is None or not _has_new_weights(layer, twin[layer], altered, constants):
            continue
        kind = "batch_norms" if has(node.op, Trait.BATCH_NORM) else "arithmetic"
        found.removed[node] = kind
        found.layers.setdefault(kind, set()).add(layer)


def _layer_before(node: Node, twin: dict[Node, Node], constants: set[Node]) -> Node | None:
    """The kept convolution or matrix product a folded node belongs to, behind other nodes of the kind."""
    while True:
        # A batch norm's other inputs are its parameters; of an Add or Mul either side may be the constant.
        sources = [v.node for v in node.inputs[: 1 if has(node.op, Trait.BATCH_NORM) else None]]
        carriers = [n for n in sources if n not in constants]
        # Two are branches that meet, which no weights can take in; none is a constant expression.
        if len(carriers) != 1:
            return None
        (node,) = carriers
        if _is_layer(node):
            return node if node in twin else None
        if not has(node.op, Trait.BATCH_NORM | _AFFINE | Trait.PASSES_THROUGH):
            return None


def _is_layer(node: Node) -> bool:
    return has(node.op, Trait.MATMUL) or "Conv" in node.op


def _has_new_weights(layer: Node, twin: Node, altered: set[str], constants: set[Node]) -> bool:
    # Not strict: a layer that took in a norm may have a bias as one input more.
    for v, w in zip(layer.inputs, twin.inputs, strict=False):
        if v.node in constants and w.node in constants:
            plain = _plain(v.node)
            # Weights that are computed, or that are read from another constant
            # than before, count as new, too.
            if plain.name in altered or plain.tensor is None or not _same_content(plain, _plain(w.node)):
                return True
    return False


def _same_content(x: Node, y: Node) -> bool:
    return x.tensor is not None and y.tensor is not None and x.tensor.same_as(y.tensor)


def _plain(node: Node) -> Node:
    """The constant behind nodes that pass it on."""
    while has(node.op, Trait.PASSES_THROUGH) and node.inputs:
        node = node.inputs[0].node
    return node


def _constants(changes: Changes, found: Explanation, constants: set[Node]) -> None:
    """Expressions of constants only, computed in advance; the constants that stand for them."""
    added = set(changes.added)
    for node in changes.removed:
        if node in constants and node.inputs:
            found.removed.setdefault(node, "constants")
    if not found.removed:
        return
    for node in changes.added:
        # A new constant is the result of folding only if all who read it read something before that is gone.
        if node.tensor is not None and all(_took_over(r, node, changes, found) for r in node.readers):
            found.added[node] = "constants"
    for node in changes.added:
        if (
            has(node.op, _AFFINE)
            and node not in found.added
            and _holds_rest_of_fold(node, changes, found, constants)
        ):
            found.added[node] = "batch_norms"
            found.added.update((v.node, "batch_norms") for v in node.inputs if v.node in added)


def constant_nodes(graph: Graph) -> set[Node]:
    """Nodes of any vocabulary whose value is known without inputs."""
    fed = {v.node for v in graph.inputs}
    known: set[Node] = set()
    for node in runnable(graph):
        pure = not has(node.op, Trait.STATEFUL)
        # In running order, so that the inputs have been judged; a stateful op may
        # give something else each time.
        follows = node.inputs and pure and all(v.node in known for v in node.inputs)
        if node not in fed and (node.tensor is not None or follows):
            known.add(node)
    return known


def _took_over(reader: Node, constant: Node, changes: Changes, found: Explanation) -> bool:
    """True if a reader's twin read something explained where this one reads the constant."""
    # The offset of a fold is judged with its addition, once all constants are known.
    if reader in found.added or has(reader.op, _AFFINE):
        return True
    twin = changes.match.reverse.get(reader)
    if twin is None or len(twin.inputs) != len(reader.inputs):
        return False
    pairs = zip(twin.inputs, reader.inputs, strict=True)
    return any(
        w.node is constant and (v.node in found.removed or v.node.tensor is not None) for v, w in pairs
    )


def _holds_rest_of_fold(node: Node, changes: Changes, found: Explanation, constants: set[Node]) -> bool:
    """True if an added addition follows a layer that took in a norm: its offset."""
    layers = set().union(*found.layers.values()) if found.layers else set()
    carriers = [v.node for v in node.inputs if v.node not in constants]
    # An addition of a constant right behind the layer.
    return len(carriers) == 1 and changes.match.reverse.get(carriers[0]) in layers


def _stored(changes: Changes, found: Explanation, constants: set[Node]) -> None:
    """Weights kept in fewer bits: an added Dequantize or Cast of constants where a constant was."""
    added = set(changes.added)
    for node in changes.added:
        if node in constants and node.op in {"Dequantize", "Cast", "Mul"} and node not in found.added:
            # With their constants: the integers, and the ends of their range.
            for source in ancestors([node]) & added:
                found.added.setdefault(source, "stored")
    if "stored" not in found.added.values():
        return
    for node in changes.removed:
        if node.tensor is not None:
            found.removed.setdefault(node, "stored")


def _companions(changes: Changes, found: Explanation) -> None:
    """Constants that went because all who read them went."""
    # From the end of the file, where readers stand as a rule, so that their kind is known first.
    for node in reversed(changes.removed):
        if node.tensor is not None and node not in found.removed:
            kinds = [found.removed.get(r, "") for r in node.readers]
            if all(kinds):
                found.removed[node] = kinds[0] if kinds else "unused"


def _mark_weights(changes: Changes, found: Explanation) -> None:
    """A layer that took in a norm has other weights, and so has the bias behind it."""
    layers = set().union(*found.layers.values()) if found.layers else set()
    touched = {_plain(v.node).name for n in layers for v in n.inputs[1:]}
    for layer in layers:
        for reader in layer.readers:
            # The bias of a layer takes in a norm's offset.
            if has(reader.op, _AFFINE):
                touched |= {_plain(v.node).name for v in reader.inputs if _plain(v.node).tensor}
    changes.weights = [replace(w, folded=w.a in touched) for w in changes.weights]


def unexplained(nodes: Iterable[Node], explained: dict[Node, str]) -> list[Node]:
    """Those of the nodes that no rewrite accounts for."""
    return [n for n in nodes if n not in explained]
