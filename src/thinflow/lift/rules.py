"""Lifting rules: functions that say one op of LiteRT, ONNX or PyTorch in TensorFlow's ops.

    @lifts("onnx.Celu")
    def celu(c):
        return c.emit(...)

A rule reads the options and operands that it understands. Whatever else is there may change what the op
computes: an option of a newer version, say. Then the op is refused by the option's name, never passed over
in silence.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.vocabulary import vocabulary_of
from thinflow.lift.lifter import Call
from thinflow.ops.registry import get, signature

Rule = Callable[[Call], Value | list[Value]]

_OURS = frozenset({"absent_inputs", "captures", "custom_options", "version", "stored_bytes"})
"""Options that our readers of files add to those of an op; and see `_OUR_BEGINNINGS`."""
_OUR_BEGINNINGS = ("_", "quantization_", "intermediate_")
_DEFAULTS: Mapping[str, Any] = {"saturate": 1, "spatial": 1, "stash_type": 1, "round_mode": "up"}
"""Values that say what is so without the option, where that is neither 0 nor empty."""


@dataclass(frozen=True)
class Entry:
    """A rule and what it need not look at.

    Attributes:
        rule: gets the op, gives its results.
        ignores: options that only say more of what the rule refuses, or that inference does not read.
        unread: places of operands that inference does not read, or that a mode has which the rule refuses.
    """

    rule: Rule
    ignores: frozenset[str] = frozenset()
    unread: frozenset[int] = frozenset()


_registry: dict[str, Entry] = {}
_counterparts: dict[str, Entry] = {}
_defined: dict[str, Entry] = {}


def lifts(*ops: str, ignores: Iterable[str] = (), unread: Iterable[int] = ()) -> Callable[[Rule], Rule]:
    """Function decorator: the rule for these ops, such as "tfl.CONV_2D" or "onnx.Conv"; see `Entry`."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            # Which of two rules were taken would depend on the order of imports.
            if op in _registry:
                raise RuntimeError(f"two rules lift {op}")
            _registry[op] = Entry(rule, frozenset(ignores), frozenset(unread))
        return rule

    return register


def lifts_defined(prefix: str) -> Callable[[Rule], Rule]:
    """Function decorator: the rule for ops that begin so and have none, but are defined by simpler ones.

    It reads all of the options and operands.
    """

    def register(rule: Rule) -> Rule:
        _defined[prefix] = Entry(rule)
        return rule

    return register


def lifts_counterparts(vocabulary: str, ops: Mapping[str, str], rule: Callable[[str], Rule]) -> None:
    """Registers what a function makes of an op of TensorFlow, for operators that are one by another name.

    An operator that has a rule of its own keeps it: one that reads options, say.
    """
    for code, op in ops.items():
        _counterparts.setdefault(f"{vocabulary}.{code}", Entry(rule(op)))


def same(op: str, *options: str) -> Rule:
    """The rule for an op of the same operands and, by the same names, the same options."""

    def rule(c: Call) -> Value:
        takes = signature(get(op).kernel)
        # More operands than the op takes stay unread, and are refused.
        count = len(c.xs) if takes.variadic else min(len(c.xs), len(takes.positional))
        given = {key: c.get(key) for key in options if c.get(key) is not None}
        return c.emit(op, *(c[i] for i in range(count)), **given)

    return rule


def variadic(op: str) -> Rule:
    """The rule for an op of any number of operands, in steps of two."""

    def rule(c: Call) -> Value:
        y = c[0]
        for i in range(1, len(c.xs)):
            y = c.emit(op, y, c[i])
        return c.emit("Identity", y) if len(c.xs) == 1 else y

    return rule


@cache
def _load_rules() -> None:
    """Import every module of this package and its folders once; their decorators fill the registry."""
    package = importlib.import_module("thinflow.lift")
    for module in pkgutil.walk_packages(package.__path__, "thinflow.lift."):
        importlib.import_module(module.name)
    # Once all are there: which module is imported first does not decide.
    for op, entry in _counterparts.items():
        _registry.setdefault(op, entry)


def rules() -> dict[str, Entry]:
    """Op -> its rule."""
    _load_rules()
    return _registry


def rule_for(op: str, *, is_own: bool = False) -> Entry | None:
    """The rule for an op; None if there is none.

    Args:
        is_own: the model itself defines the op, whatever is known by that name.
    """
    known = None if is_own else rules().get(op)
    _load_rules()
    return known or next((entry for prefix, entry in _defined.items() if op.startswith(prefix)), None)


def refuse_unread(call: Call, entry: Entry) -> None:
    """Refuse an op that says more than its rule has looked at.

    Raises:
        UnsupportedOp: names the option, or the operand.
    """
    # What no rule of ours has looked at may be new, and change what the op computes.
    for option, value in call.node.attrs.items():
        if option not in call.read_options | entry.ignores and _matters(call.node.op, option, value):
            raise UnsupportedOp(f"its option '{option}' is {_shown(value)}, which is not known here")
    for place, operand in enumerate(call.xs):
        if operand is not None and place not in call.read_operands | entry.unread:
            raise UnsupportedOp(f"its operand {place} is not known here")


def _matters(op: str, option: str, value: Any) -> bool:
    if option in _OURS or option.startswith(_OUR_BEGINNINGS):
        return False
    vocabulary = vocabulary_of(op)
    if vocabulary is not None and option in vocabulary.idle_options:
        return False
    # Off is not 0 here: without the option things are as with this value.
    if option in _DEFAULTS:
        return bool(_plain(value) != _DEFAULTS[option])
    return not _says_nothing(_plain(value))


def _says_nothing(value: Any) -> bool:
    """True if a value is what an option that is switched off has."""
    # `False` equals 0, and so does 0.0.
    return isinstance(value, int | float | str | tuple) and value in (0, "", (), "NONE")


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _shown(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, str | int | float):
        return repr(plain)[:40]
    return f"of {len(plain)} numbers" if isinstance(plain, tuple) else "given"
