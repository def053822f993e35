"""What a graph carries along from training: switches, dropout, checks, prints, summaries, queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import numpy as np

from thinflow.analysis.training_mode import inference_setting, setting_text
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, NodePattern, any_of, any_value, constant_tensor, node, source_of
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.constant_branches import resolve_calls, resolve_switches

_WORDS = {"true": 1.0, "false": 0.0}


@transform("set_training_switches")
@dataclass(frozen=True)
class SetTrainingSwitches(Rewrite):
    """Turn the placeholders by which a graph is told that it is being trained into constants.

    is_training = placeholder(bool)   ->  false
    keep_prob = placeholder(float)    ->  1           the share that dropout keeps
    rate = placeholder(float)         ->  0           the share that dropout drops

    Branches of training can go afterwards, see `remove_training_ops`, dropout too, and batch norms fold.

    Attributes:
        name: which, by name; wildcards allowed. Without names: what is known as a training switch by its use
            in dropout or by its name, has no default, and is no input of the graph.
        value: what they are set to: a number, true or false. Without it: what inference wants.
    """

    exact = False  # before, there is nothing to run without values for the switches
    in_file_order = True
    until_fixpoint = False

    name_: tuple[str, ...] = ()
    value: str | None = None

    def for_function(self) -> None:
        return None  # functions have arguments, not placeholders

    def __post_init__(self) -> None:
        if self.value is not None and not self.name_:
            raise ParameterError("a value needs the names of what it is for", hint="add name=keep_prob")
        if self.value is not None:
            _number(self.value)

    @property
    def pattern(self) -> NodePattern:  # type: ignore[override]
        return node(Trait.PLACEHOLDER, name="switch", where=self._other)

    def _other(self, node: Node) -> str | None:
        """The reason why a placeholder is not meant at all."""
        if self.name_:
            chosen = any(fnmatchcase(node.name, pattern) for pattern in self.name_)
        else:
            # A default is a setting already, which `remove_training_ops` puts in place.
            chosen = node.op != "PlaceholderWithDefault" and inference_setting(node) is not None
        return None if chosen else "it is not one of those to set"

    def check(self, m: Match) -> None:
        if m.switch.output().is_graph_input:
            raise Refuse("it is an input of the graph")
        if m.switch.is_protected:
            raise Refuse("it is asked for by name")
        setting = inference_setting(m.switch) if self.value is None else _number(self.value)
        if setting is None:
            raise Refuse("it does not look like a training switch: say what it is to be with value=")
        m.bind("setting", setting)

    def describe(self, m: Match) -> str:
        return f"is {setting_text(m.setting)} now"

    def build(self, m: Match, site: Site) -> Value:
        element = m.switch.get("dtype")
        # A switch that does not tell its type is most likely a flag.
        kind = element if isinstance(element, DType) and element.numpy_name else BOOL
        return site.constant(np.asarray(m.setting, kind.numpy()), f"{m.switch.name}/setting")


def set_switches(graph: Graph) -> list[str]:
    """Set the training switches of a graph in place; what was set, such as `is_training to false`."""
    trace = Trace()
    SetTrainingSwitches().run(graph, trace)
    return [f"{change.node} {change.text}" for change in trace.changes]


def _number(text: str) -> float:
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    # `float` alone would take nan, inf and digits with underscores.
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", word):
        raise ParameterError(f"value={text} is no number", hint="write a number, true or false")
    return float(word)


def _is_zero(value: Value) -> bool:
    """True if a value is one zero, or as many as the data has."""
    return source_of(value).node.op == "ZerosLike" or _scalar(value) == 0.0


def _uniform(value: Value) -> Node | None:
    """The RandomUniform behind a value in [0, 1); scaling by 1 and shifting by 0 are looked through."""
    while True:
        producer = source_of(value).node
        if has(producer.op, Trait.RANDOM_UNIFORM):
            return producer
        is_shift = has(producer.op, Trait.ADD)
        if not (is_shift or producer.op == "Mul") or len(producer.inputs) != 2:
            return None
        neutral = 0.0 if is_shift else 1.0
        # x + 0 and x * 1, with the constant on either side.
        others = [a for a, b in (producer.inputs, producer.inputs[::-1]) if _scalar(b) == neutral]
        if not others:
            return None
        value = others[0]


def _unscaled(data: Value) -> Value:
    """The value before division or multiplication by 1, if that is what made it."""
    producer = source_of(data).node
    if (has(producer.op, Trait.DIVIDE) or producer.op == "Mul") and len(producer.inputs) == 2:
        if _scalar(producer.inputs[1]) == 1.0:
            return producer.inputs[0]
        if producer.op == "Mul" and _scalar(producer.inputs[0]) == 1.0:
            return producer.inputs[1]
    return data


def _require_constant(value: Value, expected: float) -> None:
    number = _scalar(value)
    if number is None:
        raise Refuse(f"dropout whose probability comes from '{value.name}', which is no constant")
    if number != expected:
        raise Refuse(f"dropout that drops: '{value.name}' is {number:g}, not {expected:g}")


def _scalar(value: Value) -> float | None:
    """The number a scalar constant holds, or the difference of two: TF1 scales by max - min of the range."""
    producer = source_of(value).node
    if producer.op == "Sub" and len(producer.inputs) == 2:
        minuend, subtrahend = map(_constant, producer.inputs)
        return None if minuend is None or subtrahend is None else minuend - subtrahend
    return _constant(value)


def _constant(value: Value) -> float | None:
    tensor = constant_tensor(value)
    # One element of any rank.
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().ravel()[0])


def _needs_uniform(index: int) -> Callable[[Node], str | None]:
    """A condition: input `index` is a random number in [0, 1)."""
    return lambda node: None if _uniform(node.inputs[index]) is not None else "nothing in it is random"


# All but the head are only looked at: other readers of a mask do not matter, since the mask is not changed.
_AT_LEAST = node("GreaterEqual", "*", any_value("rate"), boundary=True, where=_needs_uniform(0))
_AT_MOST = node("LessEqual", any_value("rate"), "*", boundary=True, where=_needs_uniform(1))
_ABOVE_RATE = any_of(_AT_LEAST, _AT_MOST)
_SHIFTED = any_of(
    node(Trait.ADD, any_value("keep"), "*", boundary=True, where=_needs_uniform(1)),
    node(Trait.ADD, "*", any_value("keep"), boundary=True, where=_needs_uniform(0)),
)


def _not_zero(select: Node) -> str | None:
    return None if _is_zero(select.inputs[2]) else "what it takes instead of the data is not zero"


@transform("remove_dropout")
@dataclass(frozen=True)
class RemoveDropout(Rewrite):
    """Take out dropout that keeps everything: random numbers that cannot change the result.

    mul(div(x, 1), floor(1 + u))      ->  x     u uniform in [0, 1): the TF1 spelling with keep_prob = 1
    mul(mul(x, 1), cast(u >= 0))      ->  x     the TF2 spelling with rate = 0
    select(u >= 0, mul(x, 1), 0)      ->  x     the same, as newer releases write it
    """

    tolerance = 1e-6
    in_file_order = True
    until_fixpoint = False
    near_misses = False
    pattern: ClassVar = any_of(
        node(
            "Mul",
            any_value("data"),
            any_of(node("Floor", _SHIFTED, boundary=True), node("Cast", _ABOVE_RATE, boundary=True)),
            commutative=True,
            name="head",
        ),
        node(Trait.SELECT, _ABOVE_RATE, any_value("data"), any_value(), name="head", where=_not_zero),
    )

    def check(self, m: Match) -> None:
        if m.get("keep") is not None:
            _require_constant(m.keep, 1.0)
        else:
            _require_constant(m.rate, 0.0)
        if m.head.is_protected:
            raise Refuse("it is asked for by name")

    def describe(self, m: Match) -> str:
        return f"dropout that keeps everything; its readers read '{_unscaled(m.data).name}'"

    def build(self, m: Match, site: Site) -> Value:
        return _unscaled(m.data)


@transform("remove_training_ops")
@dataclass(frozen=True)
class RemoveTrainingOps(Transform):
    """Take out what a graph carries along from training and that does nothing when it is used.

    relu(x, ^assert)                               ->  relu(x)            checks, prints and summaries too
    switch(x, false), merge(a, b)                  ->  x, a               the branch that never runs goes
    if(false, x; then_branch=f, else_branch=g)     ->  partitioned_call(x; f=g)
    placeholder_with_default(false)                ->  false              unless it is an input of the graph
    dequeue(queue); enqueue(queue, x)              ->  x                  with one node that fills the queue

    A condition is constant if it is a constant or the default of a placeholder that nobody feeds.

    Attributes:
        asserts: remove Assert and CheckNumerics. A wrong input is not told any more.
        prints: remove Print.
        summaries: remove summaries.
        defaults: let placeholders with a default that are no inputs be that default.
        branches: follow conditions that are constant.
        queues: read what the only one who fills a queue puts in.
    """

    asserts: bool = True
    prints: bool = True
    summaries: bool = True
    defaults: bool = True
    branches: bool = True
    queues: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        # Queues and conditions first: what they leave dead need not be looked at by the rest.
        if self.queues:
            empty_queues(graph, trace)
        if self.defaults:
            TakeDefaults().apply(graph, trace)
        if self.branches:
            resolve_switches(graph, trace, self.name)
            resolve_calls(graph, trace)
        if self.asserts:
            remove_ops(graph, Trait.ASSERT, "a check", trace)
        if self.prints:
            remove_ops(graph, Trait.PRINT, "a print", trace)
        if self.summaries:
            remove_ops(graph, Trait.SUMMARY, "a summary", trace)


def remove_ops(graph: Graph, kind: Trait, what: str, trace: Trace) -> None:
    """Take nodes out that only look at values: readers read the value, nobody waits, and then they go."""
    for looker in list(graph):
        if looker.graph is not graph or not has(looker.op, kind):
            continue
        if looker.is_protected:
            trace.leave(looker, "it is asked for by name")
        # Print and CheckNumerics hand on their input; Assert has no result.
        elif has(looker.op, Trait.PASSES_THROUGH) and looker.inputs:
            trace.changed(looker, f"{what}; its readers read '{looker.inputs[0].name}'")
            sources = [v.node for v in looker.inputs]
            graph.bypass(looker, {0: looker.inputs[0]})
            sweep(graph, sources)
        else:
            _forget(graph, looker, what, trace)


def _forget(graph: Graph, node: Node, what: str, trace: Trace) -> None:
    """Let nobody wait for a node any more, and remove it if nobody reads it."""
    gone = not any(v.uses for v in node.outputs)
    if not gone and not node.control_outputs:
        return
    trace.changed(node, what if gone else f"{what}; nobody waits for it any more")
    for waiter in node.control_outputs:
        waiter.remove_control_input(node)
    if gone:
        sweep(graph, [node])


class TakeDefaults(Rewrite):
    """Let every placeholder with a default that is no input of the graph be its default."""

    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node("PlaceholderWithDefault", any_value("default"), name="placeholder")

    def check(self, m: Match) -> None:
        if m.placeholder.is_protected:
            role = "input" if m.placeholder.output().is_graph_input else "output"
            raise Refuse(f"it is an {role} of the graph")

    def describe(self, m: Match) -> str:
        return f"nobody feeds it; its readers read '{m.default.name}'"

    def build(self, m: Match, site: Site) -> Value:
        default: Value = m.default
        return default


def empty_queues(graph: Graph, trace: Trace) -> None:
    """Let who takes from a queue read what the only one who fills it puts in, element by element."""
    for queue in list(graph):
        if queue.graph is not graph or not has(queue.op, Trait.FIFO):
            continue
        users = queue.output().readers
        fills = [n for n in users if has(n.op, Trait.ENQUEUE)]
        takes = [n for n in users if has(n.op, Trait.DEQUEUE)]
        reason = _kept(queue, users, fills, takes)
        if reason is not None:
            trace.leave(queue, reason)
            continue
        # Input 0 is the queue; output i of a dequeue is component i of what was put in.
        values: dict[int, Value] = dict(enumerate(fills[0].inputs[1:]))
        for take in takes:
            trace.changed(take, f"reads what '{fills[0].name}' puts into '{queue.name}'")
            graph.bypass(take, values)
        # Closing and counting make sense only with the queue.
        for useless in (*(n for n in users if n not in takes), queue):
            trace.changed(useless, "belongs to a queue that is not needed any more")
            for waiter in useless.control_outputs:
                waiter.remove_control_input(useless)
        graph.remove(*(n for n in users if n not in takes), queue)


def _kept(queue: Node, users: tuple[Node, ...], fills: list[Node], takes: list[Node]) -> str | None:
    """The reason why a queue has to stay."""
    known = Trait.ENQUEUE | Trait.DEQUEUE | Trait.QUEUE_STATE
    strange = [n for n in users if not has(n.op, known)]
    if strange:
        return f"'{strange[0].name}' ({strange[0].op}) uses the queue"
    # With two who fill it, the order in which they run decides what comes out next.
    if len(fills) != 1 or not takes:
        return f"{len(fills)} nodes put single elements in and {len(takes)} take them out, not 1 and 1"
    named = next((n for n in (*users, queue) if n.is_protected), None)
    if named is not None:
        return f"'{named.name}' is asked for by name"
    counted = next(
        (n for n in users if has(n.op, Trait.QUEUE_STATE) and any(v.uses for v in n.outputs)), None
    )
    if counted is not None:
        return f"'{counted.name}' is read"
    return None
