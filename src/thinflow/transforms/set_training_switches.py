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
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, DType
from thinflow.ops.traits import Trait
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, NodePattern, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.rewrite.trace import Trace

_WORDS = {"true": 1.0, "false": 0.0}


@transform("set_training_switches")
@dataclass(frozen=True)
class SetTrainingSwitches(Rewrite):
    """Turn scalar placeholders into constants.

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
        """Why a placeholder is not meant at all."""
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
    SetTrainingSwitches().apply(graph, trace)
    return [f"{change.node} {change.text}" for change in trace.changes]


def _number(text: str) -> float:
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    # `float` alone would take nan, inf and digits with underscores.
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", word):
        raise ParameterError(f"value={text} is no number", hint="write a number, true or false")
    return float(word)
