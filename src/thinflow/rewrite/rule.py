"""Transforms: their base class, the ledger they fill, their registry, and the reading of their options.

    @transform("round_weights")
    @dataclass(frozen=True)
    class RoundWeights(Transform):
        \"\"\"Round weights to a few levels, so that the file compresses.\"\"\"

        num_steps: int = 256

        def apply(self, graph: Graph, trace: Trace) -> None: ...

The options are the dataclass fields: int, float, bool, str, or `tuple[...]` of one of them for an option that
may be repeated. Their defaults, names and types are all the parser needs; an underscore at the end of a field
name (`name_`) keeps it apart from what `Transform` itself defines and is not part of the option.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node
from thinflow.ir.ledger import Entry, reasons
from thinflow.rewrite.edits import drop_dangling_colocation
from thinflow.rewrite.spec import Call


@brief_repr
@dataclass
class Trace:
    """The ledger of a transform: what it did, what it left alone, and why; filled while it works.

    A place that has to stay raises Refuse in a Rewrite, or is told by `leave`; the others are rewritten. An
    option that cannot be meant is a ParameterError, made when the pipeline is read; a graph that the
    transform cannot work on at all is a GraphError or TransformError, which undoes the step
    (`ignore_errors=true` goes on without it).

    Attributes:
        changes: what was done, one entry per changed node.
        left: nodes that nearly qualified, with the reason they did not.
        warnings: sentences for the user.
        notes: facts worth telling that are neither change nor refusal.
    """

    changes: list[Entry] = field(default_factory=list)
    left: list[Entry] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _left_seen: set[tuple[str, str]] = field(default_factory=set, repr=False)

    def changed(self, node: Node, what: str) -> None:
        """Record a change. Call it while the node still has its old name and op."""
        self.changes.append(Entry(node.name, node.op, what))

    def leave(self, node: Node, why: str) -> None:
        """Record a refusal; saying the same twice counts once."""
        key = (node.name, why)
        if key not in self._left_seen:
            self._left_seen.add(key)
            self.left.append(Entry(node.name, node.op, why))

    def forget_left(self, keep: int = 0) -> None:
        """Drop the refusals but for the first `keep`: a new pass over the graph will find the ones that still
        hold.
        """
        del self.left[keep:]
        self._left_seen = {(entry.node, entry.text) for entry in self.left}

    def reasons(self) -> list[tuple[str, int, str]]:
        """(reason, how often, an example node), most frequent first."""
        return reasons(self.left)


class Refuse(Exception):
    """Raised in `check` or `build`: this place stays as it is, for this reason."""

    def __init__(self, reason: str, node: Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node


class Transform:
    """A named change of a graph, made in place.

    A transform may assume a valid graph and must leave a valid one whose outputs compute the same; the runner
    checks both and rolls back on failure. It must keep what the common rules protect: names in `graph.inputs`
    and `graph.outputs`, control edges, fields it does not know.
    """

    name: ClassVar[str] = ""
    tolerance: ClassVar[float] = 0.0
    """Largest |before - after| allowed, relative to the largest |before| of that output."""
    exact: ClassVar[bool] = True
    """False for a transform that changes numbers on purpose (quantizing, rounding): differences are reported
    only.
    """
    renames: ClassVar[bool] = False
    """True if renaming or dropping requested names is the point (rename_node, an input cut away)."""
    repeatable: ClassVar[bool] = True
    """True if a second run changes nothing."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        """Change the graph; record every change and every refusal in the trace."""
        raise NotImplementedError

    def run(self, graph: Graph, trace: Trace) -> None:
        """As `apply`; what says that it stays together with a node that is gone does not say so any more."""
        names = {node.name for node in graph}
        self.apply(graph, trace)
        drop_dangling_colocation(graph, names)

    def why_nothing(self, graph: Graph) -> str:
        """The reason why it neither changed nor left anything in a graph, in words."""
        first, _, _ = inspect.cleandoc(type(self).__doc__ or "").partition("\n\n")
        # The docstring's first paragraph says what a transform is for, in words that end this sentence.
        return f"nothing is there for it: {' '.join(first.split()).rstrip('.')}".removesuffix(": ")

    def for_function(self) -> Transform | None:
        """The transform as it acts in the body of a library function, whose inputs are its arguments.

        None if it cannot: it would need what only the whole graph has.
        """
        return self

    def __str__(self) -> str:
        """As a user would write it: `round_weights(num_steps=16)`."""
        params: dict[str, list[str]] = {}
        for f in dataclasses.fields(typing.cast(Any, self)):
            value = getattr(self, f.name)
            if value != _default(f):
                params[f.name.removesuffix("_")] = [
                    _option_text(v) for v in (value if isinstance(value, tuple) else (value,))
                ]
        return str(Call(self.name, params))


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_registry: dict[str, type[Transform]] = {}
T = TypeVar("T", bound=type[Transform])


def transform(name: str) -> Callable[[T], T]:
    """Class decorator: register a transform under the name users write."""

    def register(cls: T) -> T:
        other = _registry.get(name)
        # The same module may come twice: a plug-in that is loaded again, a module reloaded.
        if other is not None and other.__module__ != cls.__module__:
            raise RuntimeError(f"transform {name} is defined in both {other.__module__} and {cls.__module__}")
        if not dataclasses.is_dataclass(cls):  # one without options need not say so
            dataclasses.dataclass(frozen=True)(cls)
        cls.name = name
        _registry[name] = cls
        return cls

    return register


def registered(name: str) -> type[Transform] | None:
    """The class registered under a name by a module imported so far."""
    return _registry.get(name)


def registered_names() -> list[str]:
    """Every name registered so far."""
    return list(_registry)


def options(cls: type[Transform]) -> dict[str, tuple[Any, Any]]:
    """Option name -> (type, default) of a transform. The field `name_` is the option `name`."""
    hints = _hints(typing.cast(Any, cls))
    return {
        f.name.removesuffix("_"): (hints[f.name], _default(f))
        for f in dataclasses.fields(typing.cast(Any, cls))
    }


# Annotations are compiled each time they are asked for, which takes longer than many a transform.
_hints: Callable[[type], dict[str, Any]] = functools.cache(typing.get_type_hints)


def _default(f: dataclasses.Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default


def configure(cls: type[Transform], params: Mapping[str, Sequence[str]]) -> Transform:
    """A transform with its options read from the strings a user wrote.

    Raises:
        ParameterError: an option does not exist, is missing, is repeated, or has a value of the wrong kind.
    """
    known = options(cls)
    values: dict[str, Any] = {}
    for name, texts in params.items():
        if name not in known:
            hint = closest(name, [*known, "ignore_errors"]) or (
                f"it takes {', '.join(known)}" if known else "it takes no parameters"
            )
            raise ParameterError(f"'{cls.name}' has no parameter '{name}'", hint=hint)
        kind = known[name][0]
        # `tuple[float, ...]`: the option may be repeated; its first argument is the type of an item.
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            values[name] = tuple(read_value(name, t, item) for t in texts)
        elif len(texts) != 1:
            raise ParameterError(
                f"Expected a single '{name}' parameter, but found {len(texts)} occurrences",
                hint="give it once",
            )
        else:
            values[name] = read_value(name, texts[0], kind)
    for name, (_, default) in known.items():
        if default is dataclasses.MISSING and name not in values:
            raise ParameterError(
                f"'{cls.name}' needs the parameter '{name}'", hint=f"write {cls.name}({name}=...)"
            )
    # The underscore that keeps a field apart from `Transform`'s own attributes is not part of the option.
    fields = {f.name.removesuffix("_"): f.name for f in dataclasses.fields(typing.cast(Any, cls))}
    return cls(**{fields[name]: value for name, value in values.items()})


_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


def read_value(name: str, text: str, kind: Any) -> Any:
    """One option value as its type.

    Raises:
        ParameterError: in the words of the original tool.
    """
    # None is the absence of the option; there is no text for it.
    if isinstance(kind, types.UnionType):  # `int | None`: the default stands for None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if kind is bool:
        if text.strip().lower() in _TRUE | _FALSE:
            return text.strip().lower() in _TRUE
        raise ParameterError(
            f"Couldn't interpret the {name} argument as a boolean:{text} (expected true, false, 0 or 1)",
            hint="write true or false",
        )
    if kind is int:
        digits = text.strip().removeprefix("-")
        # `isdecimal` alone takes digits of other scripts; 64 bits are what the original tool's parser holds.
        if digits.isascii() and digits.isdecimal() and -(1 << 63) <= int(text) < 1 << 63:
            return int(text)
        raise ParameterError(
            f"Couldn't interpret the {name} argument as a number:{text}", hint="write a whole number"
        )
    if kind is float:
        try:
            number = float.fromhex(text) if "0x" in text.lower() else float(text)
        except ValueError:
            number = math.nan
        # No option has a use for NaN, which would pass every check of a range.
        if math.isnan(number):
            raise ParameterError(
                f"Couldn't interpret the {name} argument as a float number:{text}",
                hint="write a number such as 0.5",
            )
        return number
    return text
