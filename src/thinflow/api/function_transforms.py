"""Transforms that are plain functions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

from thinflow.api.editor import Editor
from thinflow.errors import ParameterError, ThinflowError, TransformError
from thinflow.ir.graph import Graph, Value, copy_into
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform

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
    told = {entry.node for entry in trace.changes}
    after = _texts(graph)
    for node in graph:
        if node.name not in told and before.get(node.name) != after[node.name]:
            trace.changed(node, "changed" if node.name in before else "added")
    gone = [name for name in before if name not in after and name not in told]
    first = next(iter(graph), None)
    # Entries are about nodes that are there; with none at all the runner would take the graph for unchanged.
    if gone and not trace.changes and first is not None:
        trace.changed(first, f"{len(gone)} nodes are gone: {', '.join(gone[:3])}")
