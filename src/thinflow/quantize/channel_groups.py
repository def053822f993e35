"""Channel groups: tensors whose channels can be rescaled together without a change of any answer.

    op(s * x) = s * op(x)        with a factor s[c] > 0 for each channel

ReLU, pooling, sums and most ops that move numbers about are of this kind: they carry factors on. Layers with
constant weights take factors of their input into the weights, and give their output any others. What is
neither has to see the very numbers that it saw before. So the tensors of a model fall into groups that share
their factors. `channel_rules` says what the operators of a runtime do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.program.model import Tensor
from thinflow.quantize.channel_cells import Cells
from thinflow.quantize.channel_rules import Border, Flow
from thinflow.quantize.channel_rules import litert as litert_rules
from thinflow.quantize.channel_rules import onnx as onnx_rules
from thinflow.quantize.kernels import Kernels, Operator
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.tflite import model as tflite
from thinflow.typing import Array

Program = tflite.Program | onnx.Program


@dataclass(frozen=True, eq=False)
class Group:
    """Tensors that share their factors.

    What has factors has an array of ints that broadcasts to it: 1 + the number of a factor, minus that where
    it is divided by it instead, as keys are where queries are multiplied; 0 where it stays as it is.

    Attributes:
        channels: number of factors.
        factors_of: tensor -> its ints, in the order the tensors are made.
        writers: what gives the tensors their factors, by `gives`.
        readers: what takes them up, by `reads`.
        added: what is added to the tensors, and follows their factors, by `gives`.
    """

    channels: int
    factors_of: Mapping[Tensor, Array]
    writers: tuple[Border, ...]
    readers: tuple[Border, ...]
    added: tuple[Border, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.factors_of)

    @property
    def into_depthwise(self) -> bool:
        """True if each channel is read with a weight scale of its own alone."""
        return bool(self.readers) and all(b.is_own_scale for b in self.readers)

    @cached_property
    def watched(self) -> dict[Tensor, tuple[int, ...]]:
        """The tensors whose sizes matter, and the axes along which their factors lie: what layers give, and
        what is read.
        """
        # What a product with a row of constants gives may be a mere factor, as in a norm.
        given = [b.y for b in self.writers if b.kind == "layer"]
        both = dict.fromkeys([*given, *(b.x for b in self.readers)])
        return {
            t: tuple(a for a, n in enumerate(self.factors_of[t].shape) if n > 1)
            for t in both
            if t is not None and t in self.factors_of
        }


def find_groups(program: Program, *, clamped: bool = False, loops: bool = False) -> list[Group]:
    """The groups of the main block whose factors can move from some constants into others.

    Args:
        clamped: also those whose channels are cut off at limits, which no factor gets past: channels of them
            belong together, but cannot be rescaled.
        loops: also those that the bodies of LiteRT's loops read.
    """
    bodies = program.subgraphs if loops and isinstance(program, tflite.Program) else ()
    rules = onnx_rules.RULES if isinstance(program, onnx.Program) else litert_rules.RULES
    return _groups(
        Flow(
            main_block(program),
            rules,
            partial(_clamps, kernels_of(program)) if clamped else None,
            bodies,
        )
    )


def _clamps(kernels: Kernels, operator: Operator) -> bool:
    kernel = kernels.table.get(operator.code)
    return kernel is not None and kernel.is_clamp


def watched(groups: Iterable[Group]) -> dict[Tensor, tuple[int, ...]]:
    """The watched tensors of all groups, for `channel_statistics`."""
    return {t: axes for group in groups for t, axes in group.watched.items()}


class _Classes:
    """Numbers of the free factors of a flow, and the groups that they fall into."""

    def __init__(self, flow: Flow) -> None:
        every = flow.cells.roots()
        inverse = every[np.arange(len(every)) ^ 1]
        is_free = (every != 0) & (every != inverse)
        # Of a set and that of the inverses, the even root stands for both.
        self.roots = np.where(is_free, np.minimum(every, inverse), 0)
        self.signs = np.where(every < inverse, 1, -1)
        together = Cells()
        together.fresh(len(every))
        for cells in flow.tensors.values():
            free = np.unique(self.roots[cells])
            free = free[free > 0]
            # Only sets of even numbers are joined, so that none is the inverse of another.
            together.join(free, free[:1])
        self._groups = np.where(self.roots > 0, together.roots()[self.roots], 0)
        # Factors in the order in which they are made, within each group.
        numbers = np.unique(self.roots[self.roots > 0])
        owners = self._groups[numbers]
        order = np.argsort(owners, kind="stable")
        first = np.searchsorted(owners[order], owners)
        self._numbers = np.zeros(len(every), np.int64)
        self._numbers[numbers[order]] = np.arange(1, len(numbers) + 1) - first[order]
        self.sizes = {int(g): int(n) for g, n in zip(*np.unique(owners, return_counts=True), strict=True)}

    def group(self, cells: Array) -> int:
        """The group of a tensor's factors; 0 if all are 1."""
        return int(self._groups[cells].max(initial=0))

    def numbered(self, cells: Array) -> Array:
        """Cells as the ints of a group."""
        return np.asarray(self.signs[cells] * self._numbers[self.roots[cells]])


def _groups(flow: Flow) -> list[Group]:
    classes = _Classes(flow)
    members: dict[int, dict[Tensor, Array]] = {}
    for tensor, cells in flow.tensors.items():
        members.setdefault(classes.group(cells), {})[tensor] = classes.numbered(cells)
    sides: dict[int, tuple[list[Border], list[Border], list[Border]]] = {}
    for border in flow.borders:
        reads, gives = (
            (0, None) if cells is None else (classes.group(cells), classes.numbered(cells))
            for cells in (border.reads, border.gives)
        )
        if reads[0] or gives[0]:
            known = replace(border, reads=reads[1], gives=gives[1])
            if reads[0]:
                sides.setdefault(reads[0], ([], [], []))[1].append(known)
            if gives[0]:
                sides.setdefault(gives[0], ([], [], []))[2 if border.kind == "added" else 0].append(known)
    groups = [
        Group(size, members[number], *(tuple(side) for side in sides[number]))
        for number, size in classes.sizes.items()
        if size > 1 and number in members and number in sides
    ]
    return [group for group in groups if _can_move(group)]


def _can_move(group: Group) -> bool:
    """True if there are constants at both sides, or some that grow by factors and others that shrink."""
    if group.writers and group.readers:
        return True
    signs = [np.sign(b.reads).ravel() for b in group.readers if b.reads is not None]
    signs += [-np.sign(b.gives).ravel() for b in group.writers if b.gives is not None]
    both = np.concatenate(signs) if signs else np.zeros(0)
    return bool((both > 0).any() and (both < 0).any())
