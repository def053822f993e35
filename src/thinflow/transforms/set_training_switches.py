"""Set what tells a graph that it is being trained, once and for all.

is_training = placeholder(bool)   ->  false
keep_prob = placeholder(float)    ->  1           the share that dropout keeps
rate = placeholder(float)         ->  0           the share that dropout drops

Branches of training can go afterwards, see `remove_training_ops`, dropout too, and batch norms fold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from thinflow.analysis.switches import inference_setting, setting_text
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node
from thinflow.ir.types import BOOL, DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace

_WORDS = {"true": 1.0, "false": 0.0}


@transform("set_training_switches")
@dataclass(frozen=True)
class SetTrainingSwitches(Transform):
    """Turn scalar placeholders into constants.

    Attributes:
        name: which, by name; wildcards allowed. Without names: what is known as a training switch by its use
            in dropout or by its name, has no default, and is no input of the graph.
        value: what they are set to: a number, true or false. Without it: what inference wants.
    """

    exact = False  # before, there is nothing to run without values for the switches

    name_: tuple[str, ...] = ()
    value: str | None = None

    def for_function(self) -> None:
        return None  # functions have arguments, not placeholders

    def __post_init__(self) -> None:
        if self.value is not None and not self.name_:
            raise ParameterError("a value needs the names of what it is for", hint="add name=keep_prob")
        if self.value is not None:
            _number(self.value)

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in [n for n in graph if has(n.op, Trait.PLACEHOLDER)]:
            if self.name_ and not any(fnmatchcase(node.name, pattern) for pattern in self.name_):
                continue
            try:
                setting = self._setting(node)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            if setting is not None:
                trace.changed(node, f"is {setting_text(setting)} now")
                graph.replace(node, _constant(graph, node, setting))

    def _setting(self, node: Node) -> bool | float | None:
        """What to set a placeholder to; None for no switch.

        Raises:
            Refuse: it cannot be set.
        """
        if not self.name_ and (node.op == "PlaceholderWithDefault" or inference_setting(node) is None):
            return None
        if node.output().is_graph_input:
            raise Refuse("it is an input of the graph")
        if node.is_protected:
            raise Refuse("it is asked for by name")
        if self.value is not None:
            return _number(self.value)
        setting = inference_setting(node)
        if setting is None:
            raise Refuse("it does not look like a training switch: say what it is to be with value=")
        return setting


def set_switches(graph: Graph) -> list[str]:
    """Set the training switches of a graph in place; what was set, such as `is_training to false`."""
    trace = Trace()
    SetTrainingSwitches().apply(graph, trace)
    return [f"{change.node} {change.text}" for change in trace.changes]


def _number(text: str) -> float:
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", word):
        raise ParameterError(f"value={text} is no number", hint="write a number, true or false")
    return float(word)


def _constant(graph: Graph, node: Node, setting: bool | float) -> Node:
    element = node.get("dtype")
    kind = element if isinstance(element, DType) and element.numpy_name else BOOL
    return graph.constant(np.asarray(setting, kind.numpy()), f"{node.name}/setting", before=node).node
