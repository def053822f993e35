"""Fusion: several operators become one where the target's kernels can do their work in one step.

    class FuseBias(Rewrite[Tensor, Operator]):
        \"\"\"conv(x) + b -> conv(x, b).\"\"\"

        patterns = (op("ADD", op("CONV_2D", name="conv"), const("b"), any_order=True),)

        def replace(self, m: Match[Tensor, Operator]) -> None:
            need(m.array("b").ndim <= 1, "the addend differs along more than the channels")
            conv = m.operator("conv")
            m.wiring.set_input(conv, 2, m.tensor("b"))
            m.wiring.absorb(m.head, conv)

A pattern that is not there is passed over in silence. One that is there and yet stays is told, with the
reason: a result inside that others read as well, a condition on an operator, or what `replace` refuses.
No rule changes an array: weights may be shared, so one that needs other numbers makes a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeAlias

from thinflow.ir.ledger import Entry
from thinflow.program.model import Block, O, T
from thinflow.program.wiring import Wiring, is_number
from thinflow.typing import Array

_MAX_ROUNDS = 20
"""A guard: rules that undo each other would go on for ever."""


class Refuse(Exception):
    """Raised in `replace` before the first edit: the match stays as it is. Without a reason nothing is told:
    then it is none of what the rule is for.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def need(condition: object, reason: str) -> None:
    """Refuse unless a condition holds; the reason is told."""
    if not condition:
        raise Refuse(reason)


def only_if(condition: object) -> None:
    """Pass over in silence what a rule is not for."""
    if not condition:
        raise Refuse


# --- patterns ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """An input of an operator, bound under a name; two of one name are the same tensor.

    Attributes:
        constant: whether it has to be one; None if that is open.
        number: the one number that it has to be.
    """

    name: str
    constant: bool | None = None
    number: float | None = None


@dataclass(frozen=True)
class Step:
    """An operator by its code and its first inputs; see `op`."""

    codes: frozenset[str]
    inputs: tuple[Operand | Step, ...]
    name: str
    any_order: bool
    shared: bool
    when: Callable[[Any], bool] | None
    where: Callable[[Any], str] | None


def value(name: str) -> Operand:
    """Some tensor."""
    return Operand(name)


def computed(name: str) -> Operand:
    """A tensor that is no constant."""
    return Operand(name, constant=False)


def const(name: str, number: float | None = None) -> Operand:
    """A constant, which may have to be a certain number."""
    return Operand(name, constant=True, number=number)


def op(
    codes: str,
    *inputs: Operand | Step,
    name: str = "",
    any_order: bool = False,
    shared: bool = False,
    when: Callable[[Any], bool] | None = None,
    where: Callable[[Any], str] | None = None,
) -> Step:
    """An operator, and what its first inputs are.

    Args:
        codes: alternatives, separated by `|`.
        name: to find it under.
        any_order: it has two inputs, in either order.
        shared: others may read its result, too; the rule leaves it where it is.
        when: what it is besides, else it is none of those meant.
        where: why one that is meant does not qualify; "" if it does.
    """
    return Step(frozenset(codes.split("|")), inputs, name, any_order, shared, when, where)


@dataclass(frozen=True)
class Match(Generic[T, O]):
    """A pattern found in a block.

    Attributes:
        wiring: by which `replace` changes the block.
        head: the operator the pattern ends in.
        objection: why the match may not be rewritten; "" if it may.
    """

    wiring: Wiring[T, O]
    head: O
    objection: str = ""
    operators: Mapping[str, O] = field(default_factory=dict)
    tensors: Mapping[str, T] = field(default_factory=dict)

    def operator(self, name: str) -> O:
        """The operator bound under a name."""
        return self.operators[name]

    def tensor(self, name: str) -> T:
        """The tensor bound under a name."""
        return self.tensors[name]

    def array(self, name: str) -> Array:
        """The elements of the constant bound under a name."""
        return self.tensors[name].array()

    @property
    def output(self) -> T:
        """The tensor that the whole match computes."""
        result: T = self.head.outputs[0]
        return result


def matches(pattern: Step, wiring: Wiring[T, O], head: O) -> Iterator[Match[T, O]]:
    """The ways in which a pattern fits at an operator, those with an objection included."""
    yield from _at(pattern, head, Match(wiring, head))


def _at(pattern: Step, operator: O, so_far: Match[T, O]) -> Iterator[Match[T, O]]:
    if operator.code not in pattern.codes or (pattern.when is not None and not pattern.when(operator)):
        return
    objection = pattern.where(operator) if pattern.where is not None else ""
    # A match of its own for each way to fit: the next one starts from what was known before it.
    here = replace(so_far, objection=so_far.objection or objection)
    if pattern.name:
        here = replace(here, operators={**here.operators, pattern.name: operator})
    inputs = operator.inputs
    if len(inputs) < len(pattern.inputs) or (pattern.any_order and len(inputs) != len(pattern.inputs)):
        return
    yield from _inputs(pattern.inputs, inputs, here)
    if pattern.any_order:
        # The second order is for a rule that refuses the first, as it may when both operands fit.
        yield from _inputs(pattern.inputs, inputs[::-1], here)


def _inputs(
    patterns: Sequence[Operand | Step], tensors: Sequence[T | None], so_far: Match[T, O]
) -> Iterator[Match[T, O]]:
    if not patterns:
        yield so_far
        return
    # An absent input fits no pattern.
    if tensors[0] is not None:
        for here in _input(patterns[0], tensors[0], so_far):
            yield from _inputs(patterns[1:], tensors[1:], here)


def _input(pattern: Operand | Step, tensor: T, so_far: Match[T, O]) -> Iterator[Match[T, O]]:
    if isinstance(pattern, Operand):
        is_meant = pattern.constant is None or pattern.constant == tensor.is_constant
        is_same = so_far.tensors.get(pattern.name, tensor) is tensor
        if is_meant and is_same and (pattern.number is None or is_number(tensor.array(), pattern.number)):
            yield replace(so_far, tensors={**so_far.tensors, pattern.name: tensor})
        return
    producer = so_far.wiring.producer(tensor)
    if producer is None or producer.code not in pattern.codes or (len(producer.outputs) != 1):
        return
    # The match is kept with its objection: that it would fit, and why it stays, is worth telling.
    if not pattern.shared and not so_far.wiring.is_read_once(tensor):
        is_output = so_far.wiring.is_wanted(tensor)
        why = f"'{tensor.name}' is {'an output' if is_output else 'also read elsewhere'}"
        so_far = replace(so_far, objection=so_far.objection or why)
    yield from _at(pattern, producer, so_far)


# --- rules and their driver -------------------------------------------------------------------------------


class Rewrite(Generic[T, O]):
    """A rule: patterns, and what to put in the place of the first one that fits."""

    patterns: ClassVar[tuple[Step, ...]]

    def replace(self, m: Match[T, O]) -> None:
        """Rewire the match; `need` and `only_if` come before the first edit."""
        raise NotImplementedError

    def try_at(self, wiring: Wiring[T, O], operator: O) -> str:
        """Rewrite what ends in an operator; else why that stays, "" where there is nothing to tell."""
        objection = ""
        for pattern in self.patterns:
            for match in matches(pattern, wiring, operator):
                if not match.objection:
                    try:
                        self.replace(match)
                        return ""
                    except Refuse as refusal:
                        objection = objection or refusal.reason
                objection = objection or match.objection
        return objection


Rules: TypeAlias = Mapping[str, Sequence[Rewrite[T, O]]]


def by_code(*rules: Rewrite[T, O]) -> Rules[T, O]:
    """Code of the operator a pattern ends in -> the rules for it, in their order."""
    found: dict[str, list[Rewrite[T, O]]] = {}
    for rule in rules:
        for code in sorted({code for pattern in rule.patterns for code in pattern.codes}):
            found.setdefault(code, []).append(rule)
    return found


def fuse(
    block: Block[T, O],
    rules: Rules[T, O],
    *,
    rounds: int = _MAX_ROUNDS,
    keep: Callable[[O], bool] = lambda operator: False,
) -> None:
    """Apply rules until none finds anything; `block.left` then says what they left, and why.

    Args:
        rounds: how often to go through the block at most.
        keep: which operators no pattern may end in.
    """
    before = list(block.left)
    for _ in range(rounds):
        wiring = Wiring(block)
        # Of the last round alone: what an earlier one left may have fitted since.
        left = [*before, *_round(wiring, rules, [o for o in block.operators if not keep(o)])]
        wiring.finish()
        # Between rounds: a reader that is dead would count as one more, and keep a rule from what it could
        # take.
        block.remove_dead()
        block.left = list(dict.fromkeys(left))
        if not wiring.changes:
            break


def _round(wiring: Wiring[T, O], rules: Rules[T, O], operators: Iterable[O]) -> Iterator[Entry]:
    """Try every rule once at every operator."""
    for operator in operators:
        for rule in rules.get(operator.code, ()):
            if wiring.is_gone(operator) or rule not in rules.get(operator.code, ()):
                continue  # a rule before this one has taken it out, or made another operator of it
            reason = rule.try_at(wiring, operator)
            if reason:
                yield Entry(operator.origin or operator.outputs[0].name, operator.code, reason)
