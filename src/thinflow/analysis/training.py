"""Answers of a graph that was trained: what the model computes, without what trained and saved it.

A training graph ends in its loss, its gradients and its savers; the answers stand somewhere in the middle:
what the loss is computed from, or what nothing reads although it depends on inputs and variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import BOOL, RESOURCE, STRING
from thinflow.ops.traits import Trait, has

_FEEDS = re.compile(
    r"Placeholder.*|Iterator.*|.*Queue.*Dequeue.*|QueueDequeue.*|OneShotIterator|Reader.*|Decode.*"
)
_MACHINERY = re.compile(
    r".*Assign.*|.*Apply.*|Save.*|Restore.*|.*Summary.*|.*Is(Variable)?Initialized.*|NoOp|"
    r"Stack.*|Scatter.*|ResourceScatter.*|Write.*|.*Queue.*Enqueue.*|QueueEnqueue.*"
)
_MACHINERY_SCOPE = re.compile(
    r"(^|/)(gradients|save|report_uninitialized_variables|init|IsInitialized|Initializer|global_step)(_\d+)?(/|$)"
)
_LOSS_SCOPE = re.compile(
    r"(^|/)((\w+_)?loss(es)?|cost|cross_entropy|xentropy|xent|accuracy|total_loss|regulariz\w*|l2_loss|metrics?|eval\w*|"
    r"correct\w*|train\w*|error|mse|mae)([_/\d]|$)",
    re.IGNORECASE,
)
_ANSWER_NAME = re.compile(
    r"(^|/)(embeddings?|predictions?|prob(s|abilit(y|ies))?|logits|softmax|scores?|outputs?|results?)(_\d+)?$",
    re.IGNORECASE,
)
_LOSS_OPS = frozenset(
    {
        "Mean",
        "Sum",
        "Square",
        "SquaredDifference",
        "Sub",
        "Neg",
        "Log",
        "Log1p",
        "Exp",
        "Abs",
        "Pow",
        "L2Loss",
    }
    | {"Add", "AddV2", "AddN", "Mul", "RealDiv", "Div", "DivNoNan", "Maximum", "Minimum", "ClipByValue"}
    | {"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "CTCLoss", "CTCLossV2"}
    | {"Cast", "Reshape", "Squeeze", "Equal", "InTopK", "InTopKV2", "Select", "SelectV2", "GreaterEqual"}
    | {"Greater", "ZerosLike", "Const", "Rsqrt", "Sqrt", "LogicalAnd", "Prod"}
)
"""Ops that lead from answers to a loss or a score; none of them ends a model by itself."""
_UPDATES = re.compile(r".*Assign.*|.*Apply.*|.*Scatter(Nd)?(Update|Add)|.*ScatterSub")
"""Ops that only write: what nobody but them reads is the next value of a variable, such as a moving mean."""


def variables(graph: Graph) -> list[Node]:
    """The variables of a graph that was not frozen: savers, initializers and optimizers stand beside it."""
    return [node for node in graph if has(node.op, Trait.VARIABLE)]


def answers(graph: Graph) -> dict[Value, str]:
    """The likely answers of a graph with variables, each with what speaks for it. O(nodes + edges).

    Uses specs if `infer_shapes` has run.

    Returns:
        Empty if nothing depends on anything that is fed.
    """
    forward = _forward(graph)
    learned = _downstream(variables(graph), set(graph))
    ends = [node for node in graph if node in forward and _is_end(node, forward)]
    losses = [node for node in ends if _is_loss(node)]
    candidates = {
        value: "nothing reads it"
        for node in ends
        if node not in losses and node in learned
        for value in _unread(node)
    }
    # Then what nothing reads is enough, and the loss need not be asked.
    if any(_is_like_an_answer(value.node) for value in candidates):
        return candidates
    behind = {
        node.output(): f"'{loss.name}' is computed from it"
        for loss in losses
        for node in _behind(loss, forward, learned)
    }
    if candidates:  # left over, such as a loop's outputs beside its last state: then the loss may know better
        known = ancestors([value.node for value in candidates])
        behind = {v: why for v, why in behind.items() if v.node not in known and _is_like_an_answer(v.node)}
    candidates = behind | candidates
    return candidates or {node.output(): "nothing reads it" for node in losses if node in learned}


def _is_like_an_answer(node: Node) -> bool:
    """True if its op or its name say that it is one."""
    return node.op == "Sigmoid" or has(node.op, Trait.SOFTMAX) or bool(_ANSWER_NAME.search(node.name))


def _forward(graph: Graph) -> set[Node]:
    """Nodes that depend on something fed and are not there for training or saving."""
    machinery = {
        node
        for node in graph
        if _MACHINERY.fullmatch(node.op)
        or node.op == "Assert"
        or has(node.op, Trait.PRINT)
        or _MACHINERY_SCOPE.search(node.name)
    }
    others = {node for node in graph if node not in machinery}
    return _downstream((n for n in others if _FEEDS.fullmatch(n.op)), others)


def _downstream(starts: Iterable[Node], within: set[Node]) -> set[Node]:
    reached: set[Node] = set()
    pending = list(starts)
    while pending:
        node = pending.pop()
        if node in reached or node not in within:
            continue
        reached.add(node)
        pending.extend(reader for value in node.outputs for reader in value.readers)
    return reached


def _is_end(node: Node, forward: set[Node]) -> bool:
    """True if nothing of the model reads a node, and it is not a by-product of a loop or a condition."""
    if _FEEDS.fullmatch(node.op) or has(node.op, Trait.SHAPE_OF) or node.output().dtype in {STRING, RESOURCE}:
        return False
    readers = [reader for value in node.outputs for reader in value.readers]
    if any(reader in forward or _UPDATES.fullmatch(reader.op) for reader in readers):
        return False
    # Reads back what was written before it, as every write of a resource does.
    if node.op == "ReadVariableOp" and any(_UPDATES.fullmatch(before.op) for before in node.control_inputs):
        return False
    # Somebody waits for it: a step of the model's, not its end.
    if not readers and any(waiter in forward for waiter in node.control_outputs):
        return False
    # tf.cond hands its predicate through Switch and Identity, some of which nobody reads: no ends.
    if node.op in {"Identity", "Switch"} and node.inputs and node.output().dtype is BOOL:
        return node.inputs[0].node.op != "Switch" and node.op != "Switch"
    return not (has(node.op, Trait.EXIT) and _is_by_product(node, forward))


def _is_by_product(exit_node: Node, forward: set[Node]) -> bool:
    """True if another value of the same loop is read: then that one was wanted."""
    scope = exit_node.name.rpartition("/")[0]
    graph = exit_node.graph
    assert graph is not None
    return any(
        node is not exit_node and node.op == exit_node.op and node.name.rpartition("/")[0] == scope
        for node in forward
        if any(reader in forward for value in node.outputs for reader in value.readers)
    )


def _is_loss(node: Node) -> bool:
    """A single number, or something called a loss or a score."""
    shape = node.output().shape
    is_total = node.op == "AddN" or has(node.op, Trait.REDUCTION)
    # An answer is seldom a single number; a loss always is.
    return shape == () or (shape is None and is_total) or bool(_LOSS_SCOPE.search(node.name))


def _unread(node: Node) -> Iterator[Value]:
    outputs = [value for value in node.outputs if not value.uses]
    yield from outputs[:1] or [node.output()]


def _behind(loss: Node, forward: set[Node], learned: set[Node]) -> list[Node]:
    """The values a loss is made from: the first nodes behind it that are not made of loss-like ops."""
    sources: dict[Node, None] = {}
    seen: set[Node] = set()
    pending = [loss]
    while pending:
        node = pending.pop()
        if node in seen or node not in forward or node not in learned:
            continue
        seen.add(node)
        if node is not loss and _ends_a_model(node, forward, learned):
            sources[node] = None
        else:
            pending.extend(value.node for value in node.inputs)
    # An answer that another is computed from is a step on the way.
    return [n for n in sources if not any(n is not m and n in ancestors([m]) for m in sources)]


def _ends_a_model(node: Node, forward: set[Node], learned: set[Node]) -> bool:
    if _LOSS_SCOPE.search(node.name):
        return False
    if _is_like_an_answer(node):
        return True
    if node.op in ("Mul", "Sub") or has(
        node.op, Trait.ADD
    ):  # a bias or a scale: one side is learned and depends on no input
        return any(v.node in learned and v.node not in forward for v in node.inputs)
    return node.op not in _LOSS_OPS
