"""Remains of training in a graph: switches that somebody feeds, and norms in training mode.

    is_training = placeholder(bool)        what batch norms and dropout choose their branch by
    keep_prob = placeholder(float)         the share of values that dropout keeps
    rate = placeholder(float)              the share that dropout drops

A float is known by what dropout does with it, whatever it is called, and failing that by its name.

Some fused batch norms in training mode normalise each sample by itself: layer, group and instance norms.

    LayerNorm:  x [n,t,c] -> reshape [1,n*t,c,1] -> FusedBatchNorm(NCHW, scale 1, offset 0) -> reshape
    GroupNorm:  x [1,h,w,c] -> reshape [1,h*w,c/g,g] -> FusedBatchNorm(NHWC, scale 1, offset 0) -> reshape

What the op takes for channels holds the batch, so it has no statistics of a batch: each place of each sample
has its own. Such a norm needs no stored ones, and would be another function with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, uses_through
from thinflow.ir.types import BOOL, DType
from thinflow.ops.traits import Trait, has

SWITCH_NAME = re.compile(r"(keep_?prob|drop_?out|is_?train|phase|learning_?phase|training)", re.IGNORECASE)
_KEEP_NAME = re.compile(r"(keep_?(prob|rate)|drop_?out)", re.IGNORECASE)
_RATE_NAME = re.compile(r"drop_?(out_?)?(rate|prob)", re.IGNORECASE)
_MOST_STEPS = 8
"""Limit of the steps between dropout's random numbers and its comparison, which scale and move them."""


def training_switches(graph: Graph) -> Iterator[tuple[Value, bool | float]]:
    """Placeholders that nobody feeds although somebody reads them, and what inference sets them to.

    Inputs of the graph are left out: they are fed. O(nodes).
    """
    fed = {value.node for value in graph.inputs}
    for node in graph:
        if node.op != "Placeholder" or node in fed or not node.output().is_used:
            continue
        setting = inference_setting(node)
        if setting is not None:
            yield node.output(), setting


def inference_setting(node: Node) -> bool | float | None:
    """Value that inference gives a placeholder if it is a training switch: False, or 1.0 to keep everything,
    or 0.0 to drop nothing. None if it is something else.
    """
    # A switch is a single number; a placeholder of unknown shape may be one.
    if node.op not in {"Placeholder", "PlaceholderWithDefault"} or node.get("shape") not in (None, ()):
        return None
    element = node.get("dtype")
    if element is BOOL:
        return False if SWITCH_NAME.search(node.name) else None
    if not isinstance(element, DType) or not element.is_floating:
        return None
    used = _dropout_setting(node.output())
    if used is not None:
        return used
    if _RATE_NAME.search(node.name):
        return 0.0
    return 1.0 if _KEEP_NAME.search(node.name) else None


def in_training_branch(node: Node) -> bool:
    """True if a node reads what only flows while a training switch is on: inference never runs it."""
    return any(_is_off(value) for value in node.inputs)


def _is_off(value: Value) -> bool:
    """True if a value is the side of a Switch that is dead when the training switch has its setting."""
    if value.node.op not in {"Switch", "RefSwitch"} or len(value.node.inputs) < 2:
        return False
    source = value.node.inputs[1].node
    for _ in range(_MOST_STEPS):
        if source.op != "Identity" or not source.inputs:
            break
        source = source.inputs[0].node
    setting = inference_setting(source)
    # Port 0 of a Switch is the side for false, port 1 that for true.
    return isinstance(setting, bool) and value.port != int(setting)


def setting_text(setting: bool | float) -> str:
    """A setting as a transform string has it: false, or a number."""
    return str(setting).lower() if isinstance(setting, bool) else f"{setting:g}"


def _dropout_setting(value: Value) -> float | None:
    """1.0 for a value that dropout uses as the share to keep, 0.0 for the share to drop; else None."""
    uses = uses_through(value, lambda use: use.node.outputs if _hands_on(use.node) else ())
    settings = (_role(use.node, use.index) for use in uses if not _hands_on(use.node))
    return next((setting for setting in settings if setting is not None), None)


def _hands_on(node: Node) -> bool:
    """True if what comes out is what goes in, as another type at most."""
    steers = Trait.SWITCH | Trait.MERGE | Trait.ENTER
    return has(node.op, Trait.CAST | Trait.PASSES_THROUGH | steers)


def _role(reader: Node, index: int) -> float | None:
    """Setting by the role that reading gives an input: compared with random numbers it is a rate, taken from
    one and then compared, or added to them, it is the share to keep.
    """
    if reader.op in {"GreaterEqual", "LessEqual"}:
        return 0.0 if _is_random(reader, 1 - index) else None
    if has(reader.op, Trait.ADD):
        floored = any(r.op == "Floor" for r in reader.output().readers)
        return 1.0 if floored and _is_random(reader, 1 - index) else None
    # 1 - keep_prob is compared with random numbers in newer dropouts;
    # floor(keep_prob + random) is the old form.
    if reader.op == "Sub" and index == 1 and _compared(reader.output()):
        return 1.0
    return None


def _compared(value: Value) -> bool:
    """True if random numbers are compared with a value, or with what hands it on."""
    return _dropout_setting(value) == 0.0


def _is_random(node: Node, index: int) -> bool:
    """True if an input of a node comes from random numbers, through arithmetic only."""
    if index >= len(node.inputs):
        return False
    waiting = [node.inputs[index].node]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return False
        here = waiting.pop(0)
        if has(here.op, Trait.RANDOM_UNIFORM):
            return True
        if here.op in ("Mul", "Sub") or has(here.op, Trait.ADD) or _hands_on(here):
            waiting += [v.node for v in here.inputs]
    return False


def switch_notes(settings: Sequence[str]) -> list[str]:
    """Notes on training switches that were set when the model was opened."""
    if not settings:
        return []
    return [f"set for inference: {', '.join(settings)}; name them among the inputs to feed them instead"]


# --- norms of each sample -----------------------------------------------------------------------------------


# Steps that are looked through; a damaged graph may lead round in circles.
_MOST_IDENTITIES = 8


def uses_batch_statistics(node: Node) -> bool:
    """True if a fused norm is in training mode, which is also what an absent attribute means."""
    return has(node.op, Trait.FUSED_BATCH_NORM) and node.get("is_training", True) is not False


def is_sample_norm(node: Node) -> bool:
    """True if a fused norm in training mode keeps samples apart, so that it is no batch norm."""
    if not uses_batch_statistics(node) or len(node.inputs) < 3:
        return False
    if _follows_the_batch(node.inputs[1]):
        return True
    reshape = _source(node.inputs[0])
    if reshape.op != "Reshape" or len(reshape.inputs) < 2 or not _begins_with_one(reshape.inputs[1]):
        return False
    if _is_filled(node.inputs[1], 1.0) and _is_filled(node.inputs[2], 0.0):
        return True  # what the channels are scaled by comes later: these are groups, not channels
    before = reshape.inputs[0].spec.shape
    # NCHW with a first size of 1: the batch went into the axis that the op takes for channels.
    first = str(node.get("data_format", "NHWC")).startswith("NC")
    return first and (not before or before[0] != 1)


def _source(value: Value) -> Node:
    """The node that makes a value, past what hands it on."""
    node = value.node
    for _ in range(_MOST_IDENTITIES):
        if not node.inputs or not (node.op == "Cast" or has(node.op, Trait.PASSES_THROUGH)):
            break
        node = node.inputs[0].node
    return node


def _follows_the_batch(scale: Value) -> bool:
    """True if a scale is as long as an input of the graph makes it: no norm has so many stored channels."""
    source = _source(scale)
    if source.op != "Fill":
        return source.op == "OnesLike"
    # A rank is the same for every batch; sizes and what is fed are not.
    sizes = (n for n in ancestors([source.inputs[0].node]) if n.op != "Rank")
    return any(has(n.op, Trait.PLACEHOLDER | Trait.SHAPE_OF) for n in sizes)


def _begins_with_one(sizes: Value) -> bool:
    """True if the first size of a reshape is written as 1."""
    source = _source(sizes)
    for _ in range(_MOST_IDENTITIES):
        if source.op not in {"Pack", "ConcatV2"} or not source.inputs:
            break
        source = _source(source.inputs[0])
    tensor = source.tensor
    if tensor is None or not tensor.size:
        return False
    return int(tensor.numpy().reshape(-1)[0]) == 1


def _is_filled(value: Value, number: float) -> bool:
    """True if all elements of a constant are a number."""
    source = _source(value)
    if source.op == "Fill":
        source = _source(source.inputs[1])
    tensor = source.tensor
    return tensor is not None and tensor.size > 0 and bool((tensor.numpy() == number).all())
