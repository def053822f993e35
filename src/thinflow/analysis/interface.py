"""Candidates for a graph's inputs and outputs, ranked, with reasons: for graphs nobody has explained."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from thinflow.analysis.neighbor_specs import asked_shape
from thinflow.analysis.shapes import port_count
from thinflow.analysis.training import answers, variables
from thinflow.analysis.training_mode import inference_setting, setting_text
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import RESOURCE, STRING, DType, Shape, shape_text
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has

_PREPARES = {
    "ReadFile": "reads a file",
    "AudioSpectrogram": "spectrogram",
    "Mfcc": "MFCC features",
    "ResizeBilinear": "bilinear resize",
    "ResizeBicubic": "bicubic resize",
    "ResizeNearestNeighbor": "nearest-neighbour resize",
    "ResizeArea": "area resize",
    "CropAndResize": "crop and resize",
    "Cast": "cast",
    "Sub": "mean subtraction",
    "Mul": "scaling",
    "RealDiv": "scaling",
    "Div": "scaling",
    "ExpandDims": "adding the batch",
}
"""Op -> what it does in front of a model, in words."""


def in_front(op: str) -> str:
    """What an op does in front of a model, in words; "" if nothing is known."""
    return _PREPARES.get(op, "")


def postprocessing(op: str) -> str:
    """What an op at the end of a model does that does not compute but choose, in words; "" for others."""
    if has(op, Trait.NMS):
        return "non-maximum suppression"
    if has(op, Trait.TOP_K):
        return "top-k selection"
    return {"ArgMax": "arg-max", "Softmax": "softmax"}.get(op, "")


_LAYERS = Trait.CONVOLUTION | Trait.CONV_TRANSPOSE | Trait.FUSED_CONV | Trait.MATMUL | Trait.GATHER
_HEAVY = _LAYERS | Trait.WHILE | Trait.ENTER


def is_heavy(op: str) -> bool:
    """Whether an op does a model's work: what stands before the first of them prepares its input."""
    others = ("QuantizedConv2D", "QuantizedMatMul", "TensorArrayScatterV3", "TensorArrayV3")
    return has(op, _HEAVY) or op in others


_SOURCES = Trait.QUEUE | Trait.DEQUEUE | Trait.DEQUEUE_MANY | Trait.DEQUEUE_UP_TO


def _is_source(op: str) -> bool:
    """True if an op takes samples out of a queue, a file or a data set."""
    return has(op, _SOURCES) or op.startswith(("Iterator", "ReaderRead", "ReadFile"))


def _decoding(op: str) -> str:
    """Says what bytes an op decodes; "" if it decodes none."""
    definition = registry.find(op)
    return f"decodes {definition.decodes}" if definition is not None and definition.decodes else ""


_MANY_SINKS = 50
_NO_ANSWERS = (
    Trait.PLACEHOLDER | Trait.PRINT | Trait.VARIABLE | Trait.SUMMARY | Trait.QUEUE | Trait.TABLE_FILE
)
_WRITERS = re.compile(
    r"(Resource)?(Assign|Apply|CountUpTo).*|ScatterUpdate|Queue.*|"
    r".*(Save|Restore|Summary|Initializer|Dataset|Iterator).*"
)
"""Families of ops that stand unread in training graphs besides the answers."""
_DEBRIS = re.compile(
    r"(^|/)(gradients?|train(ing)?|optimizer|adam|momentum|rmsprop|sgd|save|saver|init|report_uninitialized|global_step|"
    r"(\w+_)?loss(es)?|cross_entropy|xentropy|accuracy|total_loss|l2_loss|l2_regularizer|regularizer|summar(y|ies)|eval|metrics?|"
    r"correct_prediction|confusion.*|evaluation.*)([_/\d]|$)",
    re.IGNORECASE,
)
_RESULT_NAME = re.compile(r"Identity(_\d+)?")
"""TensorFlow 2's names for the results of a function that it froze."""
_GOOD_NAME = re.compile(
    r"(softmax|predict|prob|output|logit|result|score|class|detection|boxes|final|embedding|sigmoid|heatmap|concat_stage)",
    re.IGNORECASE,
)
_LABEL_NAME = re.compile(
    r"(^|/)(labels?|targets?|y_?|y_true|ground_?truth.*|answers?)(_\d+)?$", re.IGNORECASE
)


@brief_repr
@dataclass
class Candidate:
    """A value that may be meant as input or output.

    Attributes:
        value: the value.
        score: higher is likelier; 0 and below is not suggested.
        reasons: what speaks for and against it, in words.
    """

    value: Value
    score: float
    reasons: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.value.name}: {', '.join(self.reasons)}"


@brief_repr
@dataclass
class Interface:
    """The best guess at how a graph is to be used.

    Attributes:
        inputs, outputs: all candidates, likeliest first.
        cut: value to feed instead of what stands before it (decoding, queues); None if nothing does.
        preprocessing, postprocessing: what is embedded in the graph, in words, in running order.
    """

    inputs: list[Candidate]
    outputs: list[Candidate]
    cut: Candidate | None = None
    preprocessing: list[str] = field(default_factory=list)
    postprocessing: list[str] = field(default_factory=list)

    @property
    def chosen_inputs(self) -> list[Value]:
        """Values to feed: placeholders that matter; failing those the cut."""
        chosen = [c.value for c in self.inputs if c.score > 0]
        return chosen or ([self.cut.value] if self.cut is not None else [])

    @property
    def open_inputs(self) -> list[tuple[str, Shape]]:
        """Chosen inputs declared with sizes open beyond the batch; no training switches, no strings."""
        left_open = []
        for value in self.chosen_inputs:
            shape = value.node.get("shape") if has(value.node.op, Trait.PLACEHOLDER) else value.shape
            shape = asked_shape(value, shape if isinstance(shape, tuple) else None)
            if value.dtype is STRING or inference_setting(value.node) is not None:
                continue
            if shape is None or None in shape[1:]:
                left_open.append((value.name, shape))
        return left_open

    @property
    def chosen_outputs(self) -> list[Value]:
        """Values to fetch."""
        chosen = [c.value for c in self.outputs if c.score > 0]
        return chosen or [c.value for c in self.outputs]


def guess_interface(graph: Graph) -> Interface:
    """Rank candidates for inputs and outputs.

    Uses specs if `infer_shapes` has run. O(nodes + edges) per output kept.
    """
    if graph.vocabulary:
        return _declared(graph)
    # In a graph with variables what nothing reads is mostly machinery of training,
    # so answers are looked for first.
    outputs = _answered(graph) or _outputs(graph)
    suggested = [c.value.node for c in outputs if c.score > 0] or [c.value.node for c in outputs]
    # Inputs that only training needs, such as labels, lead to no suggested output.
    needed = ancestors(suggested) if suggested else set(graph)
    inputs = _inputs(graph, needed)
    interface = Interface(inputs, outputs)
    _find_cut(graph, needed, interface)
    ends = {node for node in needed if postprocessing(node.op) and not _leads_to_heavy(node)}
    interface.postprocessing = list(dict.fromkeys(postprocessing(n.op) for n in graph if n in ends))
    return interface


def _answered(graph: Graph) -> list[Candidate]:
    """Answers that a graph with variables was trained for, before all else; empty if that cannot be told."""
    answered = answers(graph) if variables(graph) else {}
    sizes = (
        {value: len(ancestors([value.node])) for value in answered} if len(answered) <= _MANY_SINKS else {}
    )
    biggest = max(sizes.values(), default=1)
    candidates = []
    for value, reason in answered.items():
        candidate = _rank_output(value, sizes.get(value, 0), biggest)
        # In place of "feeds nothing", which need not be so.
        candidate.reasons[0] = reason
        candidates.append(candidate)
    if not candidates:
        return []
    others = [c for c in _outputs(graph) if c.value not in answered]
    for other in others:
        other.score = min(other.score, 0)
    return sorted(candidates, key=lambda c: -c.score) + others


def _declared(graph: Graph) -> Interface:
    """The inputs and outputs of a file that states them."""

    def stated(values: Iterable[Value], role: str) -> list[Candidate]:
        return [Candidate(v, 2.0, [f"{role} of {v.spec}"]) for v in values]

    return Interface(stated(graph.inputs, "an input"), stated(graph.outputs, "an output"))


def _outputs(graph: Graph) -> list[Candidate]:
    candidates: list[Candidate] = []
    sizes: dict[Node, int] = {}
    unread = [n for n in graph if not any(v.is_used for v in n.outputs) and port_count(n) != 0]
    for node in unread:
        if not _is_machinery(node):
            sizes[node] = 0
    if not sizes:  # then these are outputs after all
        sizes = {n: 0 for n in unread if has(n.op, Trait.PRINT) or n.op == "PlaceholderWithDefault"}
    # For many sinks (a training graph) the number of ancestors is not worth quadratic time.
    if len(sizes) <= _MANY_SINKS:
        sizes = {node: len(ancestors([node])) for node in sizes}
    biggest = max(sizes.values(), default=1)
    for node, size in sizes.items():
        # The other outputs of these say how the first was computed.
        count = 1 if has(node.op, Trait.FUSED_BATCH_NORM | Trait.MERGE) else port_count(node) or 1
        candidates += [_rank_output(node.output(port), size, biggest) for port in range(count)]
    candidates.sort(key=lambda c: -c.score)
    best = candidates[0].score if candidates else 0
    for candidate in candidates:
        if candidate.score < best - 3:  # far behind the best: a leftover
            candidate.score = min(candidate.score, 0)
    return candidates


def _is_machinery(node: Node) -> bool:
    """True if a node that nothing reads is there for training, saving or telling, or is a mere constant."""
    if node.tensor is not None or node.op in ("NoOp", "Assert", "Const"):
        return True
    # Of what others read it says the range; codes are made of the same numbers, beside it.
    if has(node.op, Trait.FAKE_QUANT) and node.inputs and len(node.inputs[0].readers) > 1:
        return True
    return has(node.op, _NO_ANSWERS | Trait.PLACEHOLDER) or _WRITERS.fullmatch(node.op) is not None


def is_class_scores(value: Value) -> bool:
    """True if a value looks like one score per class, so that its largest entry is an answer.

    A softmax is; so are logits, the bare result of a matrix product; a sigmoid may be a reconstruction.
    """
    node = _behind(value)
    return node.op in ("MatMul", "Dequantize") or has(node.op, Trait.SOFTMAX | Trait.BIAS_ADD | Trait.ADD)


def is_softmax(value: Value) -> bool:
    """True if a value is the shares of classes."""
    return has(_behind(value).op, Trait.SOFTMAX)


def _behind(value: Value) -> Node:
    """What computes the numbers of a value, in whichever shape."""
    node = value.node
    while has(node.op, Trait.IDENTITY | Trait.RESHAPE) and node.inputs:
        node = node.inputs[0].node
    return node


def _rank_output(value: Value, size: int, biggest: int) -> Candidate:
    node = value.node
    candidate = Candidate(value, 1.0, ["feeds nothing"])

    def weigh(points: float, reason: str) -> None:
        candidate.score += points
        candidate.reasons.append(reason)

    width = value.shape[-1] if value.shape else None
    # What decides is the op behind those that only pass its result on.
    source = node
    passed = {node}  # a broken graph may go round in circles
    while source.op in {"Identity", "Reshape", "Squeeze"} and source.inputs:
        source = source.inputs[0].node
        if source in passed:
            break
        passed.add(source)
    if source.op in {"Softmax", "Sigmoid", "LogSoftmax"}:
        weigh(2, f"is a {source.op}" + (f", {width} wide" if width else ""))
    elif words := postprocessing(source.op):
        weigh(1, f"ends in {words}")
    elif value.shape is not None:
        candidate.reasons.append(f"{source.op} of shape {shape_text(value.shape)}")
    if node.control_outputs:
        weigh(-4, "only control edges lead on from it")
    if _DEBRIS.search(node.name):
        weigh(-4, "looks like training debris")
    elif _GOOD_NAME.search(node.name):
        weigh(1, "is named like an output")
    if size >= 0.5 * biggest > 0:
        weigh(1, f"depends on {size} nodes")
    elif size < 0.1 * biggest:
        weigh(-1, f"depends on {size} nodes only")
    if node.op == "Identity" and _RESULT_NAME.fullmatch(node.name):
        weigh(3, "is named as TensorFlow 2 names results")
    if value.dtype in {STRING, RESOURCE}:
        weigh(-2, f"is {value.dtype}")
    return candidate


def _inputs(graph: Graph, needed: set[Node]) -> list[Candidate]:
    candidates: list[Candidate] = []
    for node in graph:
        if not has(node.op, Trait.PLACEHOLDER):
            continue
        value = node.output()
        element, shape = node.get("dtype"), node.get("shape")
        type_name = element.name if isinstance(element, DType) else "?"
        kind = type_name + shape_text(asked_shape(value, shape if isinstance(shape, tuple) else None))
        candidate = Candidate(value, 2.0, [f"a placeholder of {kind}"])
        if node.op == "PlaceholderWithDefault":
            # Below 0 even so: the graph runs without it, and it is not suggested.
            candidate.score -= 3
            candidate.reasons.append("has a default")
        if node not in needed:
            # Likewise, whatever its name or type says.
            candidate.score -= 4
            candidate.reasons.append("no output needs it")
        setting = inference_setting(node)
        if setting is not None:
            candidate.reasons.append(
                f"looks like a training switch (inference feeds {setting_text(setting)})"
            )
        # A placeholder called y that an output needs is an input, not a label.
        elif _LABEL_NAME.search(node.name) and node not in needed:
            candidate.reasons.append("looks like labels")
        for op in sorted({r.op for r in value.readers}):
            if words := _decoding(op) or (_is_source(op) and _PREPARES.get(op)):
                candidate.reasons.append(f"goes into {op}, which {words}")
        candidates.append(candidate)
    candidates.sort(key=lambda c: -c.score)
    return candidates


def _find_cut(graph: Graph, needed: set[Node], interface: Interface) -> None:
    """If decoding or a queue stands in front, find where the model proper begins: the value a first heavy op
    reads.
    """
    starts = [n for n in graph if n in needed and (_decoding(n.op) or _is_source(n.op))]
    if not starts:
        return
    chain = _downstream(starts, needed)
    names = [_decoding(n.op) or _PREPARES.get(n.op) for n in graph if n in chain]
    interface.preprocessing = [text for text in dict.fromkeys(names) if text]
    borders = [v for n in chain for v in n.outputs if any(r not in chain and r in needed for r in v.readers)]
    # Sizes that travel beside the picture (Shape, sample rates) are no cut.
    borders = [v for v in borders if v.dtype is None or v.dtype.is_floating] or borders
    # With several places to cut, feeding one of them would not be enough.
    if len(borders) == 1:
        first = starts[0]
        reason = f"sits behind {first.op}: cut here and feed what the model proper expects"
        interface.cut = Candidate(borders[0], 1.0, [reason])


def _downstream(starts: Iterable[Node], needed: set[Node]) -> set[Node]:
    """Nodes that depend on the starts, up to where the first heavy op reads."""
    chain = set[Node]()
    stack = list(starts)
    while stack:
        node = stack.pop()
        if node in chain or node not in needed or is_heavy(node.op):
            continue
        chain.add(node)
        if any(is_heavy(r.op) for v in node.outputs for r in v.readers):
            continue
        stack.extend(r for v in node.outputs for r in v.readers)
    return chain


def _leads_to_heavy(node: Node) -> bool:
    """True if an op that does a model's work comes after the node."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if current is not node and is_heavy(current.op):
            return True
        stack.extend(r for v in current.outputs for r in v.readers)
    return False
