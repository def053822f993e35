"""The facts that rules of the linter ask for: each worked out once, when the first rule asks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from thinflow.analysis.cost import GraphCost, graph_cost
from thinflow.analysis.foreign import ACTING
from thinflow.analysis.shapes import declared_spec, infer_shapes, infer_with_loops
from thinflow.analysis.training_mode import switch_notes
from thinflow.errors import UnsupportedOp
from thinflow.formats import load as read_file
from thinflow.interpreter.turns import turns_of
from thinflow.ir.graph import Graph, Node
from thinflow.ir.ledger import Entry
from thinflow.ir.order import ancestors
from thinflow.lint.activations import FEWEST, MOST, Activations, observed
from thinflow.lint.dry_run import DryRun, dry_run
from thinflow.lint.handwritten import Activation, handwritten_activations
from thinflow.lint.own_ops import beginning, in_own_ops, may_merge
from thinflow.lint.placement import suited, written_operators
from thinflow.lint.weights import Constant, Layer, extremes, layers
from thinflow.load.graphs import Source, load_for_inference
from thinflow.load.sources import open_model
from thinflow.ops.traits import Trait, has
from thinflow.optimize.fed_samples import SampleFeeds
from thinflow.optimize.samples import one_sample, samples_for
from thinflow.transforms.strip_unused_nodes import needed_nodes

_OPERATIONS = 5e9
"""Operations of all runs together, beyond which fewer samples are run."""
_TRIFLE, _TRIFLE_FLOPS, _TRIFLE_BYTES = 1e-3, 1000, 4096
"""Of all operations, of operations where a model has few, and of values, up to which nobody would look at
nodes: a microsecond or so on a phone."""


class Context:
    """A model as rules see it.

    A file of another vocabulary than TensorFlow's is looked at twice: `file` has its own operators, `graph`
    what they become in TensorFlow's words. What stands in the second alone is the translation's, and no
    business of whoever made the file.

    Attributes:
        graph: as inference runs it: variables frozen, training switches set, inputs and outputs known, in
            TensorFlow's ops. Rules do not change it.
        file: as the file has it, or the same as `graph` where the file is no single graph.
        source: what was opened.
        shapes: input name -> shape, as they were given.
        settings: of the training switches that were set to get `graph`: "keep_prob is 1 now".
        notes: sentences on how the model was opened.
        is_translated: whether the ops of `graph` are not those of the file.
    """

    def __init__(
        self,
        source: Source,
        *,
        calibration: Any = None,
        synthetic: bool = False,
        loaded: tuple[Graph, list[str]] | None = None,
        **opening: Any,
    ):
        self.source, self.shapes = source, opening.get("shapes")
        self.notes: list[str] = []
        try:
            # Whoever has it already need not wait for it again.
            self.graph, self.settings = loaded or load_for_inference(source, **opening)
        except UnsupportedOp as error:
            # An op that only its own runtime knows: what the file itself says is there to look at.
            self.graph, self.settings = _untranslated(source, error), []
            self.notes.append(f"{error.message}: what only its form in TensorFlow's ops shows is not told")
        self.file = _as_it_came(source, self.graph)
        self.is_translated = self.graph.source is not None
        self._calibration, self._synthetic = calibration, synthetic
        declared = source.inputs if isinstance(source, Graph) else opening.get("inputs")
        self._are_inputs_named = bool(declared)
        self.notes += switch_notes(self.settings)

    @property
    def has_own_nodes(self) -> bool:
        """Whether the nodes of `file` are the file's own. Those of a Keras model are made for its layers."""
        return bool(self.file.vocabulary) or not self.is_translated

    @property
    def may_run(self) -> bool:
        """Whether rules may run the model: there are samples, or made-up inputs are allowed."""
        return self._calibration is not None or self._synthetic

    @property
    def in_turns(self) -> SampleFeeds | None:
        """The samples as timed runs take them; None without any."""
        return None if self._calibration is None else SampleFeeds(self._calibration)

    def check_samples(self) -> None:
        """Look at the first sample where a path was given: a slip in it is no property of the model.

        Raises:
            FeedError: nothing is there, or it does not fit the inputs.
        """
        if isinstance(self._calibration, str | os.PathLike):
            next(iter(samples_for(self.graph, self._calibration, limit=1)), None)

    @cached_property
    def needed(self) -> set[Node]:
        """The nodes of `graph` that its outputs need; behind its inputs where the caller named those.

        What stands in front of guessed ones, such as a decoder, is part of the model.
        """
        if self._are_inputs_named:
            found = set(needed_nodes(self.graph))
            fed = (v for v in self.graph.inputs if v.is_graph_output or any(r in found for r in v.readers))
            return found | {v.node for v in fed}
        return ancestors([v.node for v in self.graph.outputs]) if self.graph.outputs else set(self.graph)

    @cached_property
    def needed_names(self) -> set[str]:
        """Names of the nodes of the file that its outputs need."""
        # A file of other operators than TensorFlow's says what its outputs are.
        if self.file.vocabulary and self.file.outputs:
            ends = [*(v.node for v in self.file.outputs), *(n for n in self.file if n.op in ACTING)]
            return {n.name for n in ancestors(ends)}
        return {n.name for n in self.needed}

    @cached_property
    def _of_one_sample(self) -> Graph:
        """A copy of `graph` with the sizes that values have for one sample."""
        graph = self.graph.clone()
        infer_with_loops(graph, {v: one_sample(declared_spec(v)) for v in graph.inputs})
        return graph

    @cached_property
    def costs(self) -> GraphCost:
        """The operations of a run on one sample."""
        graph = self._of_one_sample
        return graph_cost(graph, list(ancestors([v.node for v in graph.outputs])) or None, turns=turns_of)

    @cached_property
    def for_litert(self) -> Graph:
        """The graph as it would be converted for LiteRT."""
        return suited(self.graph, "LiteRT")

    @cached_property
    def written(self) -> Counter[str]:
        """The operators of the .tflite file that it would become; none if no file holds all of it."""
        return written_operators(self.for_litert.clone())

    @cached_property
    def activations(self) -> Activations:
        """What runs on samples showed, given or made up."""
        # The interpreter takes a second for some 5 GFLOP.
        runs = int(min(max(_OPERATIONS / max(self.costs.total.flops, 1), FEWEST), MOST))
        samples = samples_for(self.graph, self._calibration, limit=runs)
        return observed(self.graph, samples, made_up=samples.synthetic)

    @cached_property
    def handwritten(self) -> list[Activation]:
        """The activations that are written in several ops of the file."""
        if not self.has_own_nodes:
            return []
        # A translation spells out what is one operator in the file, of which only the end has a name there.
        named = {n.name for n in self.file if n.tensor is None}
        found = handwritten_activations(self.graph, self.needed)
        return [one for one in found if all(n.name in named for n in one.nodes)]

    def flops(self, nodes: Iterable[str]) -> int | None:
        """The operations of some nodes; None if they are known of none."""
        known = [cost.flops for name in dict.fromkeys(nodes) if (cost := self.costs.by_node.get(name))]
        return sum(known) if known else None

    def given_bytes(self, nodes: Iterable[str]) -> int | None:
        """The bytes that nodes of `graph` give for one sample; None if the size of one is not known."""
        names = list(nodes)
        if not self.names.issuperset(names):
            return None
        sizes = [v.spec.size_bytes for name in names for v in self._of_one_sample.node(name).outputs]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def is_trifle(self, nodes: Sequence[str]) -> bool:
        """Whether nodes are next to nothing of a run: known to be, by their operations and what they give."""
        size = self.given_bytes(nodes)
        if size is None or size > _TRIFLE_BYTES or any(name in self.costs.unknown for name in nodes):
            return False
        # What only moves numbers has no operations to be told.
        return (self.flops(nodes) or 0) <= max(_TRIFLE * self.costs.total.flops, _TRIFLE_FLOPS)

    @cached_property
    def names(self) -> set[str]:
        """Names of the nodes of `graph`."""
        return {node.name for node in self.graph}

    @cached_property
    def fed(self) -> set[Node]:
        """The nodes of `graph` that what is fed has a part in; its sizes alone are none."""
        reached: set[Node] = set()
        pending = [v.node for v in self.graph.inputs]
        while pending:
            node = pending.pop()
            if node not in reached and not has(node.op, Trait.SHAPE_OF):
                reached.add(node)
                pending += node.readers
        return reached

    def node(self, name: str) -> Node:
        """A node of `graph` by its name."""
        return self.graph.node(name)

    @cached_property
    def dry(self) -> DryRun:
        """What the transforms of the order "float" would do."""
        return dry_run(self.graph, "float")

    @cached_property
    def own(self) -> Graph:
        """The nodes of the file, in TensorFlow's ops where one says what one of the file does."""
        return in_own_ops(self.file, self.graph) if self.file.vocabulary else self.graph

    @property
    def can_mend(self) -> bool:
        """Whether transforms can work on the model: it is in TensorFlow's ops."""
        return not self.graph.vocabulary

    @cached_property
    def own_dry(self) -> DryRun:
        """What the transforms that clean graphs would do to `own`."""
        if not self.file.vocabulary:
            return self.dry
        ops = sorted({n.op for n in self.own if may_merge(n.op)})
        known = ", ".join(f"assume_stateless={op}" for op in ops)
        merges = f"merge_duplicate_nodes({known})" if known else "merge_duplicate_nodes"
        # Folding is last: it drops the shapes that ops of the file state, which the others go by.
        return dry_run(
            self.own,
            f"remove_nodes(op=Identity) {merges} simplify_arithmetic cancel_transposes fold_constants",
        )

    def changed(self, *transforms: str, op: str = "", text: str = "") -> tuple[str, ...]:
        """Names of nodes that transforms change in the dry run, in their order.

        What an earlier transform made, and is no node of the model, is left out.

        Args:
            transforms: by name.
            op: only nodes of this op.
            text: only changes whose description holds this.
        """
        return _told(self.graph, self.dry.changes(*transforms), op, text)

    def changed_own(self, *transforms: str, text: str = "") -> tuple[str, ...]:
        """Names of nodes of the file, no constants, that its outputs need and that transforms change.

        Args:
            transforms: by name.
            text: only changes whose description holds this.
        """
        names = _told(self.own, self.own_dry.changes(*transforms), "", text)
        known = {n.name for n in self.file if n.tensor is None} if self.file.vocabulary else self.names
        return tuple(
            name
            for name in names
            if name in known and name in self.needed_names and self.own.node(name).tensor is None
        )

    def says_itself(self, name: str) -> bool:
        """Whether a node of `graph` is one of the file, and all that this one becomes."""
        return name in self._own_names and self.own.node(name).op == self.node(name).op

    @cached_property
    def _own_names(self) -> set[str]:
        return {n.name for n in self.file} & {n.name for n in self.own} & self.names

    def names_in_file(self, names: Sequence[str]) -> tuple[str, ...]:
        """Nodes of `graph` by the names of those in the file that they were made for, each once."""
        if not self.file.vocabulary:
            return tuple(names)
        return tuple(dict.fromkeys(beginning(name, self._file_names) or name for name in names))

    @cached_property
    def _file_names(self) -> set[str]:
        return {node.name for node in self.file}

    @cached_property
    def constants(self) -> list[Constant]:
        """The constants of the file, in its order."""
        nodes = ((n, n.tensor) for n in self.file)
        return [Constant(n, t, n.name in self.needed_names) for n, t in nodes if t is not None]

    @cached_property
    def extremes(self) -> dict[Node, tuple[float, float]]:
        """The smallest and largest number of each constant that the outputs need. Reads all weights."""
        known = ((c.node, extremes(c.tensor)) for c in self.constants if c.is_needed)
        return {node: ends for node, ends in known if ends is not None}

    def extremes_of(self, name: str) -> tuple[float, ...]:
        """The same of a constant by its name; () if it is not known."""
        return self._extremes_by_name.get(name, ())

    @cached_property
    def _extremes_by_name(self) -> dict[str, tuple[float, float]]:
        return {node.name: ends for node, ends in self.extremes.items()}

    @cached_property
    def stored_bytes(self) -> int:
        """The bytes of all constants of the file."""
        return sum(c.stored_bytes for c in self.constants)

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers of `graph` that the outputs need and whose weights are constants as they are stored."""
        return [layer for layer in layers(self.graph) if layer.node in self.needed]


def _untranslated(source: Source, error: UnsupportedOp) -> Graph:
    """The graph of a file as it is there.

    Raises:
        UnsupportedOp: the one given, if it is no file of another vocabulary.
    """
    found = source.clone() if isinstance(source, Graph) else open_model(source)
    if not found.vocabulary:
        raise error
    infer_shapes(found)
    return found


def _told(graph: Graph, changes: Iterable[Entry], op: str, text: str) -> tuple[str, ...]:
    """Nodes of a graph, in its order, that changes are about."""
    told = {e.node for e in changes if op in ("", e.op) and text in e.text}
    return tuple(node.name for node in graph if node.name in told)


def _as_it_came(source: Source, graph: Graph) -> Graph:
    """The graph of a file with nothing frozen, guessed or translated; the loaded one if there is none such.

    A SavedModel's graph always has savers and calls beside the model. Loading leaves nothing of what it was
    made of, so that a file is read again, without its weights; a Keras file's layers become nodes again.
    """
    if not isinstance(source, Graph) and os.path.isdir(source):
        return graph
    found = source.clone() if isinstance(source, Graph) else read_file(source)
    infer_shapes(found)
    return found
