"""Transforms that are plain functions, and the graph as they get it, with helpers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from thinflow.analysis.shapes import infer_node, infer_shapes
from thinflow.errors import GraphError, ParameterError, ThinflowError, TransformError
from thinflow.ir.graph import Graph, Node, Value, copy_into
from thinflow.ir.order import execution_order
from thinflow.ir.types import DType, Shape
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, NodePattern, constant_tensor
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform

if TYPE_CHECKING:
    import numpy as np

Reference = Value | str
"""A value, or its name: `conv1`, `split:1`."""


class Editor:
    """The graph with helpers, as a function-style transform gets it.

    Attributes:
        graph: the graph itself, with all its methods; the editor passes on what it does not define.
    """

    def __init__(self, graph: Graph, trace: Trace, origin: str) -> None:
        self.graph, self.trace, self.origin = graph, trace, origin

    def __getattr__(self, name: str) -> Any:
        # Through `__dict__`: before `graph` is set, `self.graph` would come back here for ever.
        return getattr(self.__dict__["graph"], name)

    @property
    def nodes(self) -> list[Node]:
        """All nodes in file order."""
        return list(self.graph)

    def value(self, reference: Reference) -> Value:
        """A value by its name."""
        return self.graph.value(reference) if isinstance(reference, str) else reference

    def consumers(self, reference: Reference) -> tuple[Node, ...]:
        """The nodes that read a value, each once."""
        return self.value(reference).readers

    def const(self, reference: Reference) -> np.ndarray[Any, Any] | None:
        """The numbers of a constant, also behind an Identity; None if it is none. A view: do not write."""
        tensor = constant_tensor(self.value(reference))
        return None if tensor is None else tensor.numpy()

    def add_const(self, name: str, array: Any, like: Node | None = None) -> Value:
        """A new constant under that name or one like it, in front of the node `like` and on its device."""
        import numpy as np

        made = self.graph.constant(np.asarray(array), name, before=like)
        made.node.origin = self.origin
        made.node.device = like.device if like is not None else ""
        return made

    def replace(
        self, pattern: NodePattern, build: Callable[[Match, Site], Value], what: str = "replaced"
    ) -> int:
        """Put what `build` gives in the place of every match, until none is left; how many there were.

        `build` may raise `Refuse`. It is all as in a `Rewrite`; a pattern must not match what is built.
        """
        before = len(self.trace.changes)

        class Local(Rewrite):
            name = self.origin

            def build(self, m: Match, site: Site) -> Value:
                return build(m, site)

            def describe(self, m: Match) -> str:
                return what

        # Not in the body of the class, where `pattern = pattern` would not find the parameter.
        Local.pattern = pattern
        Local().apply(self.graph, self.trace)
        return len(self.trace.changes) - before

    def rename_inputs(self, mapping: Mapping[str, str]) -> int:
        """Let whoever reads the value `old` read `new`; rules chain. How many inputs changed.

        Raises:
            GraphError: the rules lead in a circle, or a name does not exist.
        """
        changed = 0
        for old in mapping:
            new, seen = mapping[old], {old}
            while new in mapping:
                if new in seen:
                    raise GraphError(f"the renaming of '{old}' leads in a circle", hint="take one rule out")
                seen.add(new)
                new = mapping[new]
            source, target = self.value(old), self.value(new)
            # The new value may be computed from the old one, and must go on reading it.
            changed += source.replace_uses(target, keep=[target.node])
        return changed

    def filter(self, keep: Callable[[Node], bool]) -> int:
        """Remove the nodes for which `keep` says no, which nothing may use; how many."""
        # Asked for all before any goes: what `keep` sees is the graph as it was.
        lost = {node for node in self.graph if not keep(node)}
        # Readers before what they read: only an unused node can be removed.
        for node in reversed(execution_order(self.graph)):
            if node in lost:
                self.trace.changed(node, "removed")
                self.graph.remove(node)
        return len(lost)

    def remove_attributes(self, names: Iterable[str]) -> int:
        """Remove attributes from every node; how many nodes had one."""
        gone, count = set(names), 0
        for node in self.graph:
            if present := gone & node.attrs_view.keys():
                for name in present:
                    del node.attrs[name]
                self.trace.changed(node, f"removed {', '.join(sorted(present))}")
                count += 1
        return count

    def toposort(self) -> list[Node]:
        """The nodes, each after those it reads."""
        return execution_order(self.graph)

    def in_out_types(self, node: Node) -> tuple[list[DType | None], list[DType | None]]:
        """Types of the inputs and outputs of a node; None where nobody knows."""
        # Again each time: the function may have edited the graph since.
        infer_shapes(self.graph)
        inputs = [v.spec for v in node.inputs]
        return [s.dtype for s in inputs], [s.dtype for s in infer_node(node, inputs)]

    def static_shape(self, reference: Reference) -> Shape:
        """The shape of a value as far as it can be told; None for an unknown rank."""
        infer_shapes(self.graph)
        return self.value(reference).spec.shape


REQUIRED: Any = object()
"""The default of a parameter that has to be given."""


@dataclass(frozen=True)
class Param:
    """One parameter of a transform.

    Attributes:
        name: as users write it.
        default: what it is if it is not given; required without one.
        repeated: whether it may be given several times; its value is a tuple then.
        meaning: one line for `thinflow transforms NAME`.
    """

    name: str
    default: Any = REQUIRED
    repeated: bool = False
    meaning: str = ""

    kind: ClassVar[type] = str

    def as_field(self) -> tuple[str, Any, Any]:
        """Name, type and default for the dataclass that holds the options."""
        hint: Any = tuple[self.kind, ...] if self.repeated else self.kind  # type: ignore[name-defined]
        default = () if self.repeated and self.default is REQUIRED else self.default
        # None is of no kind that text is read as; it says that nothing was given.
        if default is None:
            hint = hint | None
        return self.name, hint, field(default=default) if default is not REQUIRED else field()


class StrParam(Param):
    """A parameter that is text."""


class IntParam(Param):
    """A parameter that is a whole number."""

    kind = int


class FloatParam(Param):
    """A parameter that is a number."""

    kind = float


class BoolParam(Param):
    """A parameter that is true or false."""

    kind = bool


@dataclass(frozen=True)
class Context:
    """The inputs, outputs, parameters and report that a transform gets besides the graph.

    Attributes:
        inputs, outputs: the values that are asked for by name.
        params: the parameters by name, as attributes: `ctx.params.size`.
        report: where to tell what was done, left and noticed.
    """

    inputs: list[Value]
    outputs: list[Value]
    params: SimpleNamespace
    report: Trace


Function = Callable[[Editor, Context], Graph | Editor | None]
"""A transform as a function: changes the graph and returns None, or returns another."""
Decorated = TypeVar("Decorated", bound=Function)
OfMessages = Callable[[Any, Context], Any]
"""The same for GraphDef messages."""


def register(
    name: str,
    params: Sequence[Param] = (),
    *,
    tolerance: float = 0.0,
    exact: bool = True,
    repeatable: bool = True,
) -> Callable[[Decorated], Decorated]:
    """Function decorator: make a transform of `function(graph, ctx) -> Graph | None`.

    The graph is an `Editor`. Return None after changing it, or another graph. What `ctx.report` is not told
    is found by comparing the graph before and after.

    Args:
        name: what users write.
        params: what it takes.
        tolerance: the largest difference of outputs that is rounding, relative to the largest value.
        exact: False if changing numbers is the point.
        repeatable: whether a second run changes nothing.

    Returns:
        The decorator, which hands the function back as it is.
    """

    def decorate(function: Decorated) -> Decorated:
        def apply(self: Any, graph: Graph, trace: Trace) -> None:
            # Functions need not tell what they do, so the graph is compared with how it was.
            before = _texts(graph)
            given = _call(function, Editor(graph, trace, name), self, graph, trace)
            if isinstance(given, Editor):
                given = given.graph
            if given is not None and given is not graph:
                if not isinstance(given, Graph):
                    raise TransformError(
                        f"it returned {type(given).__name__}",
                        hint="return a Graph, or None after changing it",
                    )
                Graph.__init__(graph)  # its callers hold the graph itself: it is emptied, and filled anew
                copy_into(graph, given)
            _tell_changes(before, graph, trace)

        _make(name, params, function, apply, tolerance=tolerance, exact=exact, repeatable=repeatable)
        return function

    return decorate


def register_raw(name: str, params: Sequence[Param] = (), **about: Any) -> Callable[[OfMessages], OfMessages]:
    """As `register`, for `function(graph_def, ctx) -> graph_def`: GraphDef messages, not graphs."""

    def decorate(function: OfMessages) -> OfMessages:
        @functools.wraps(function)
        def with_message(editor: Editor, ctx: Context) -> Graph:
            from thinflow.formats.graphdef import from_message, to_message

            graph = editor.graph
            message = to_message(graph)
            given = function(message, ctx)
            if not isinstance(given, type(message)):
                raise TransformError(f"it returned {type(given).__name__}", hint="return the GraphDef")
            new = from_message(given)
            # A GraphDef has no inputs and outputs; names are all that leads back to them.
            new.inputs = [new.value(v.name) for v in graph.inputs]
            new.outputs = [new.value(v.name) for v in graph.outputs]
            return new

        register(name, params, **about)(with_message)
        return function

    return decorate


def _call(function: Function, editor: Editor, options: Any, graph: Graph, trace: Trace) -> Any:
    """Run the function; whatever it raises becomes an error of ours.

    Raises:
        TransformError: it failed.
    """
    values = {f.name.removesuffix("_"): getattr(options, f.name) for f in dataclasses.fields(options)}
    context = Context(graph.inputs, graph.outputs, SimpleNamespace(**values), trace)
    try:
        return function(editor, context)
    except ThinflowError:
        raise
    except Refuse as refusal:
        where = f" at '{refusal.node.name}'" if refusal.node is not None else ""
        raise TransformError(
            f"it refused{where}: {refusal.reason}", hint="Refuse belongs into a pattern's build"
        ) from refusal
    except Exception as error:
        raise TransformError(
            f"it raised {type(error).__name__}: {error}", hint="set THINFLOW_DEBUG=1 to see where"
        ) from error


def _make(
    name: str, params: Sequence[Param], function: Function, apply: Callable[..., None], **about: Any
) -> type[Transform]:
    duplicates = {p.name for p in params if [q.name for q in params].count(p.name) > 1}
    if duplicates:
        raise ParameterError(f"'{name}' declares the parameter '{min(duplicates)}' twice", hint="rename one")
    # A dataclass wants fields without a default first. Options are given by name, so their order is free.
    required_first = sorted(params, key=lambda p: p.default is not REQUIRED or p.repeated)
    cls = dataclasses.make_dataclass(
        name,
        [p.as_field() for p in required_first],
        bases=(Transform,),
        frozen=True,
        namespace={"apply": apply, **about},
    )
    # By its module it is told whether a name is taken or a plug-in loaded again.
    cls.__module__ = function.__module__
    meanings = "".join(f"    {p.name}: {p.meaning}\n" for p in params if p.meaning)
    purpose = (function.__doc__ or "").strip()
    cls.__doc__ = purpose + (f"\n\nAttributes:\n{meanings}" if meanings else "")
    return transform(name)(cls)


def _texts(graph: Graph) -> dict[str, str]:
    from thinflow.ir.text import node_text

    return {node.name: node_text(node) for node in graph}


def _tell_changes(before: dict[str, str], graph: Graph, trace: Trace) -> None:
    """Record the nodes that differ and are not recorded yet."""
    recorded = {entry.node for entry in trace.changes}
    after = _texts(graph)
    for node in graph:
        if node.name not in recorded and before.get(node.name) != after[node.name]:
            trace.changed(node, "changed" if node.name in before else "added")
    gone = [name for name in before if name not in after and name not in recorded]
    first = next(iter(graph), None)
    # Entries are about nodes that are there; with none at all the runner would take the graph for unchanged.
    if gone and not trace.changes and first is not None:
        trace.changed(first, f"{len(gone)} nodes are gone: {', '.join(gone[:3])}")
