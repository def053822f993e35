"""Programs without channels that hardly tell anything: see `near_dead` for which."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.onnx import program as onnx
from thinflow.program.model import Operator, Tensor
from thinflow.quantize.channel_rules import Border
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.quantize.near_dead import Family, Weak, removed_by_group, weak_channels
from thinflow.quantize.runners import Feed, runner_of
from thinflow.tflite import model as tflite
from thinflow.typing import Array

logger = logging.getLogger(__name__)

P = TypeVar("P", bound=tflite.Program | onnx.Program)
_OFF_DB = 12.0
"""By how much answers may be worse than what goes from each layer: a network has many layers."""


@dataclass(frozen=True)
class Pruned(Generic[P]):
    """A program without some channels.

    Attributes:
        removed, channels: how many went, and of how many that could.
        weights, weights_before: numbers among its constants that went, and that there were.
    """

    program: P
    removed: int = 0
    channels: int = 0
    weights: int = 0
    weights_before: int = 0

    @property
    def sentence(self) -> str:
        """Such as `63 of 200 channels were removed, 12300 weights with them`; "" for none."""
        if not self.removed:
            return ""
        return f"{self.removed} of {self.channels} channels were removed, {self.weights} weights with them"


def prune(program: P, level_db: float, feeds: Sequence[Feed], *, threads: int = 1) -> Pruned[P]:
    """The program without channels that are weaker than a level; see `weak_channels`.

    What does not run without its channels keeps them, as does what answers differently by more than the level
    explains.

    Raises:
        FeedError: a sample does not fit.
    """
    if not feeds:
        return Pruned(program)
    weak = weak_channels(program, level_db, feeds, threads=threads)
    check = _Check(program, feeds[0], level_db - _OFF_DB, threads)
    families = _that_can_go(program, weak, check)
    removed = removed_by_group(weak, families)
    made = _without(program, weak, removed)
    before, after = _weights(program), _weights(made)
    every = sum(group.channels for group in weak.groups)
    return Pruned(made, sum(map(len, removed.values())), every, before - after, before)


def _that_can_go(program: P, weak: Weak, check: _Check) -> list[Family]:
    """Families without which the program runs, and answers nearly the same: all, or those of some groups."""
    if not weak.families or check.passes(_without(program, weak, removed_by_group(weak, weak.families))):
        return weak.families
    kept: list[Family] = []
    by_groups: dict[frozenset[int], list[Family]] = {}
    for family in weak.families:
        by_groups.setdefault(frozenset(g for g, _ in family.channels), []).append(family)
    for families in by_groups.values():
        if check.passes(_without(program, weak, removed_by_group(weak, [*kept, *families]))):
            kept += families
    return kept


class _Check:
    """Whether a program answers one sample nearly as another."""

    def __init__(
        self, program: tflite.Program | onnx.Program, feed: Feed, level_db: float, threads: int
    ) -> None:
        self._feed, self._threads, self._most = feed, threads, 10 ** (-level_db / 10)
        self._expected = self._answers(program)

    def passes(self, program: tflite.Program | onnx.Program) -> bool:
        try:
            found = self._answers(program)
        except ThinflowError as error:
            logger.debug("channels stay: %s", error.message)
            return False
        return all(
            a.shape == b.shape and float(np.square(a - b).sum()) <= self._most * float(np.square(a).sum())
            for a, b in zip(self._expected, found, strict=True)
        )

    def _answers(self, program: tflite.Program | onnx.Program) -> list[Array]:
        outputs = main_block(program).outputs
        runner = runner_of(program, outputs, self._threads)
        runner.run(self._feed, "the first sample")
        return [np.array(runner.view(t), np.float64) for t in outputs]


def _weights(program: tflite.Program | onnx.Program) -> int:
    # Those that steps or scales share count once for each reader: it is a measure, and no size of a file.
    return sum(int(t.array().size) for t in main_block(program).constants() if t.array().dtype.kind == "f")


# -------------------------------------------------------------------------------------------- the new program


def _without(program: P, weak: Weak, removed: Mapping[int, set[int]]) -> P:
    """The program without channels of its groups, and with biases for their means."""
    if not any(removed.values()):
        return program
    new = _Smaller(program, weak, {g: np.array(sorted(gone)) for g, gone in removed.items() if gone})
    operators = [new.operator(o) for o in main_block(program).operators]
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, operators=operators))
    main = replace(program.subgraphs[0], operators=operators)
    return cast("P", replace(program, subgraphs=[main, *program.subgraphs[1:]]))


class _Smaller:
    """Tensors and constants without some channels."""

    def __init__(
        self, program: tflite.Program | onnx.Program, weak: Weak, removed: Mapping[int, Array]
    ) -> None:
        self._kernels = kernels_of(program)
        self._tensors: dict[Any, Any] = {}
        self._cuts: dict[tuple[Tensor, int], dict[int, Array]] = {}
        self._outputs: dict[Tensor, Array] = {}
        self._shifts: dict[Tensor, Array] = {}
        self._grouped: dict[Tensor, int] = {}
        for number, gone in removed.items():
            group = weak.groups[number]
            for tensor, factors in group.factors_of.items():
                self._tensors[tensor] = replace(tensor, shape=_shrunk(tensor.shape, factors, gone))
            for border in group.readers:
                self._cut(border, border.reads, gone)
                shift = weak.shifts.get((border.operator.outputs[0], number))
                if shift is not None:
                    self._shifts[border.operator.outputs[0]] = shift[gone].sum(axis=0)
            for border in (*group.writers, *group.added):
                self._cut(border, border.gives, gone)
                if border.kind == "layer" and border.gives is not None:
                    self._outputs[border.operator.outputs[0]] = np.isin(border.gives, gone).ravel()

    def _cut(self, border: Border, numbers: Array | None, gone: Array) -> None:
        """Note what goes from a constant, along the axis that its factors vary along."""
        rank, first = border.constants.ndim, border.operator.outputs[0]
        if numbers is None or border.constants.size == 1:
            return
        aligned = np.isin(numbers, gone).reshape((1,) * (rank - numbers.ndim) + numbers.shape)
        axis = next(a for a, n in enumerate(aligned.shape) if n > 1)
        masks = self._cuts.setdefault((first, border.number), {})
        # Both sides of a row of factors lose the same.
        masks[axis] = masks.get(axis, np.zeros(aligned.size, bool)) | aligned.ravel()
        if border.is_own_scale and "group" in border.operator.options:
            self._grouped[first] = int(masks[axis].sum())

    def operator(self, operator: Operator[Any]) -> Any:
        first = operator.outputs[0] if operator.outputs else None
        inputs = [self._input(operator, n, t) for n, t in enumerate(operator.inputs)]
        outputs = [self._tensors.get(t, t) for t in operator.outputs]
        options = dict(operator.options)
        if first in self._grouped:
            options["group"] -= self._grouped[first]
        made = replace(operator, inputs=inputs, outputs=outputs, options=options)
        if first in self._shifts:
            self._add_bias(made, operator, self._shifts[first])
        if operator.code.upper() == "RESHAPE" and outputs[0] is not first:
            _reshape(made)
        return made

    def _input(self, operator: Operator[Any], number: int, tensor: Any) -> Any:
        if tensor is None or not operator.outputs:
            return tensor
        cuts = self._cuts.get((operator.outputs[0], number))
        if cuts is None:
            return self._tensors.get(tensor, tensor)
        data = np.asarray(tensor.array())
        return replace(tensor, shape=(smaller := _without_entries(data, cuts)).shape, data=smaller)

    def _add_bias(self, made: Operator[Any], operator: Operator[Any], shift: Array) -> None:
        """The bias, with what channels that went would have added; the layer's own may go, too."""
        weighted = self._kernels.table[operator.code].weighted
        assert weighted is not None, "only layers with a bias take a shift"
        assert weighted.bias is not None, "only layers with a bias take a shift"
        number = weighted.bias
        made.inputs += [None] * (number + 1 - len(made.inputs))
        old = operator.inputs[number] if number < len(operator.inputs) else None
        whole = shift if old is None else old.array().reshape(-1) + shift
        first, w = operator.outputs[0], operator.inputs[weighted.weights]
        if first in self._outputs:
            whole = whole[~self._outputs[first]]
        data = np.ascontiguousarray(whole, np.float32)
        like: Any = w if old is None else old
        made.inputs[number] = replace(like, name=f"{first.name}/shifted", shape=data.shape, data=data)


def _shrunk(shape: Any, factors: Array, gone: Array) -> tuple[int | None, ...]:
    axis = next(a for a, n in enumerate(factors.shape) if n > 1)
    left = int((~np.isin(factors, gone)).sum())
    return tuple(left if a == axis else n for a, n in enumerate(shape))


def _without_entries(data: Array, masks: Mapping[int, Array]) -> Array:
    """An array without the entries of masks, by axis."""
    for axis, mask in masks.items():
        data = np.compress(~mask, data, axis=axis)
    return np.ascontiguousarray(data)


def _reshape(operator: Operator[Any]) -> None:
    """Let a reshape give the shape that its output has now."""
    given, y = operator.inputs[1] if len(operator.inputs) > 1 else None, operator.outputs[0]
    sizes = [-1 if n is None else n for n in y.shape]
    if given is not None and given.is_constant:
        old = np.asarray(given.array())
        kept = np.where(old > 0, np.asarray(sizes, old.dtype), old)
        operator.inputs[1] = replace(given, name=f"{y.name}/sizes", data=kept)
    if "new_shape" in operator.options:
        operator.options["new_shape"] = sizes
