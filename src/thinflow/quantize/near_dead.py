"""Channels that hardly tell anything, by what samples show: which could go, and what they leave behind.

A layer sums up its inputs' channels. How much of what that sum varies by is one channel's share follows from
how much the channel varies, and from the weights it is read with:

    share[k] = sum of w[k]^2 * var(x[k])  /  the same of all channels

Its mean goes into the layer's bias. What stands between two layers and has a constant for each channel (a
depthwise convolution, a norm) loses the channel at both of its sides; a sum of several tensors in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.program.model import Operator, Tensor
from thinflow.quantize.calibrate import watch_program
from thinflow.quantize.channel_groups import Group, Program, find_groups
from thinflow.quantize.channel_rules import Border, compact
from thinflow.quantize.macs import kernels_of
from thinflow.quantize.observers import Watcher
from thinflow.quantize.runners import Feed
from thinflow.typing import Array

Channel = tuple[int, int]
"""Number of a group, and of a factor in it, from 1 on."""


@dataclass
class Family:
    """Channels that can only go together, and what they are read by.

    Attributes:
        channels: of one or several groups.
        share: the largest that they have in a layer that reads them.
    """

    channels: list[Channel]
    share: float = 0.0


@dataclass
class Spread:
    """Mean and variance of the channels of what a layer reads, in the shape of its weights' factors."""

    mean: Array
    variance: Array


@dataclass
class Weak:
    """Families of channels with a share of at most a level, the weakest first, and means of what is read.

    Attributes:
        groups: of the program.
        shifts: layer's first output and group -> float64 [channels of the group + 1, outputs]: what each adds
            to the sum on average; for layers whose bias can take it up.
    """

    groups: list[Group]
    families: list[Family] = field(default_factory=list)
    shifts: dict[tuple[Tensor, int], Array] = field(default_factory=dict)


def weak_channels(program: Program, level_db: float, feeds: Sequence[Feed], *, threads: int = 1) -> Weak:
    """What could go while all that goes from a layer stays so many decibels below its sum.

    Raises:
        FeedError: a sample does not fit.
    """
    found = Weak([g for g in map(_compacted, find_groups(program, clamped=True)) if _is_removable(g)])
    spreads = _spreads(found.groups, program, feeds, threads)
    families = _families(found.groups)
    shares: dict[tuple[Tensor, int], Array] = {}
    for number, group in enumerate(found.groups):
        for border in group.readers:
            if _is_layer(border) and border.x in spreads:
                key = border.operator.outputs[0], number
                shares[key] = _shares(border, group, spreads[border.x], _takes_shift(program, border))
                if _takes_shift(program, border):
                    found.shifts[key] = _shifts(border, group, spreads[border.x])
    unknown = {
        number
        for number, group in enumerate(found.groups)
        for border in filter(_is_layer, group.readers)
        if (border.operator.outputs[0], number) not in shares
    }
    for family in families:
        told = [float(share[k]) for (_, g), share in shares.items() for n, k in family.channels if n == g]
        is_known = told and not any(n in unknown for n, _ in family.channels)
        family.share = max(told) if is_known else np.inf
    # Shares are of squares, of which ten decibels are a factor of ten.
    _choose(found, families, shares, 10 ** (-level_db / 10))
    return found


def _choose(
    found: Weak, families: Iterable[Family], shares: Mapping[tuple[Tensor, int], Array], most: float
) -> None:
    """Take the weakest families while no layer loses more than a part of its sum."""
    spent = dict.fromkeys(shares, 0.0)
    for family in sorted(families, key=lambda one: one.share):
        # A layer loses what all that go tell together.
        after = {
            key: spent[key] + sum(float(share[k]) for n, k in family.channels if n == key[1])
            for key, share in shares.items()
        }
        if family.share <= most and max(after.values()) <= most:
            spent = after
            found.families.append(family)


def _compacted(group: Group) -> Group:
    """The group, its ints along no more axes than they need."""

    def smaller(numbers: Array | None) -> Array | None:
        return None if numbers is None else compact(numbers)

    sides = {
        name: tuple(replace(b, reads=smaller(b.reads), gives=smaller(b.gives)) for b in getattr(group, name))
        for name in ("writers", "readers", "added")
    }
    factors = {t: compact(n) for t, n in group.factors_of.items()}
    return replace(group, factors_of=factors, **cast("Any", sides))


def _is_removable(group: Group) -> bool:
    """True if each of a group's tensors has its channels along one axis, and none is divided by a factor."""
    numbers = [
        *group.factors_of.values(),
        *(b.reads for b in group.readers if b.reads is not None),
        *(b.gives for b in (*group.writers, *group.added) if b.gives is not None),
    ]
    is_plain = all((n >= 0).all() for n in numbers)
    return is_plain and all(sum(s > 1 for s in n.shape) == 1 for n in numbers)


def _is_layer(border: Border) -> bool:
    """True for weights that sum channels up."""
    return border.kind == "layer" and not border.is_own_scale


def _families(groups: Sequence[Group]) -> list[Family]:
    """Channels joined where a constant for each of them stands between two groups."""
    sets: DisjointSets[Channel] = DisjointSets(
        (n, k) for n, g in enumerate(groups) for k in range(1, g.channels + 1)
    )
    fixed: set[Channel] = set()
    reads = {_key(b): (n, b) for n, g in enumerate(groups) for b in g.readers if not _is_layer(b)}
    gives = {_key(b): (n, b) for n, g in enumerate(groups) for b in g.writers if not _is_layer(b)}
    for key in dict.fromkeys((*reads, *gives)):
        sides = [(n, _numbers(b.reads if s is reads else b.gives))
                 for s in (reads, gives) if key in s for n, b in [s[key]]]  # fmt: skip
        shape = np.broadcast_shapes(*(numbers.shape for _, numbers in sides))
        flat = [(n, np.broadcast_to(numbers, shape).ravel().tolist()) for n, numbers in sides]
        for place in zip(*(values for _, values in flat), strict=True):
            pairs = [(n, k) for (n, _), k in zip(flat, place, strict=True) if k]
            if len(pairs) == 2:
                sets.join(pairs)
            # The other side has to stay what it is.
            else:
                fixed.update(pairs)
    members: dict[Channel, list[Channel]] = {}
    for channel in list(sets):
        members.setdefault(sets.find(channel), []).append(channel)
    return [Family(m) for m in members.values() if not fixed & set(m)]


def _key(border: Border) -> tuple[Tensor, int]:
    return border.operator.outputs[0], border.number


def _numbers(numbers: Array | None) -> Array:
    return np.zeros((), np.int64) if numbers is None else numbers


# ------------------------------------------------------------------------------------------ what samples tell


class _Moments(Watcher):
    """Sums and sums of squares of a tensor's channels."""

    def __init__(self, axis: int, size: int, rank: int) -> None:
        self.rank, self.axis, self.size = rank, axis, size
        self.others = tuple(a for a in range(rank) if a != axis)
        self.sums, self.squares, self.count = np.zeros(size), np.zeros(size), 0

    def observe(self, values: Array, low: float, high: float) -> None:
        if values.ndim != self.rank or values.shape[self.axis] != self.size:
            return  # some were not finite: nobody knows the channels of the others
        self.sums += values.sum(axis=self.others, dtype=np.float64)
        self.squares += np.square(values, dtype=np.float64).sum(axis=self.others)
        self.count += values.size // self.size

    def spread(self) -> Spread:
        mean = self.sums / max(self.count, 1)
        # The difference of two sums: rounding may leave a channel that is constant a little below 0.
        return Spread(mean, np.maximum(self.squares / max(self.count, 1) - mean**2, 0.0))


def _spreads(
    groups: Iterable[Group], program: Program, feeds: Sequence[Feed], threads: int
) -> dict[Any, tuple[Array, Spread]]:
    """Tensor that a layer reads -> the numbers of its factors along their axis, and their spread."""
    watched: dict[Any, _Moments] = {}
    numbers: dict[Any, Array] = {}
    for group in groups:
        for border in filter(_is_layer, group.readers):
            x = border.x
            if x is not None and x in group.factors_of and x.shape:
                factors = group.factors_of[x]
                axis = next(a for a, n in enumerate(factors.shape) if n > 1)
                watched[x] = _Moments(axis, factors.shape[axis], factors.ndim)
                numbers[x] = factors.ravel()
    watch_program(program, watched, feeds, threads=threads)
    return {x: (numbers[x], one.spread()) for x, one in watched.items() if one.count}


def _by_weight(border: Border, group: Group, given: tuple[Array, Spread], what: str) -> Array:
    """A moment of the channel that each weight reads, in the shape of the weights' factors.

    A channel that lies at several places, as in a flattened picture, has one for each where the weights tell
    them apart; else the mean of them.
    """
    numbers, spread = given
    values, reads = getattr(spread, what), _numbers(border.reads)
    if reads.size == numbers.size and (reads.ravel() == numbers).all():
        return np.asarray(values.reshape(reads.shape))
    sums, counts = np.zeros(group.channels + 1), np.zeros(group.channels + 1)
    np.add.at(sums, numbers, values)
    np.add.at(counts, numbers, 1)
    return np.asarray((sums / np.maximum(counts, 1))[reads])


def _shares(border: Border, group: Group, given: tuple[Array, Spread], takes_shift: bool) -> Array:
    """float64 [channels + 1] of what a layer's sum varies by, or loses for good."""
    variance = _by_weight(border, group, given, "variance")
    mean = _by_weight(border, group, given, "mean")
    squares = np.square(np.asarray(border.constants, np.float64))
    lost = squares * (variance + (0.0 if takes_shift else 1.0) * mean**2)
    total = float((squares * variance).sum()) or 1.0
    found = np.zeros(group.channels + 1)
    np.add.at(found, np.broadcast_to(_numbers(border.reads), lost.shape).ravel(), lost.ravel())
    return found / total


def _shifts(border: Border, group: Group, given: tuple[Array, Spread]) -> Array:
    """float64 [channels + 1, outputs] of what each channel adds to a layer's outputs on average."""
    weights = np.asarray(border.constants, np.float64) * _by_weight(border, group, given, "mean")
    axis = outputs_axis(border)
    numbers = np.broadcast_to(_numbers(border.reads), weights.shape)
    rows = np.moveaxis(weights, axis, -1).reshape(-1, weights.shape[axis])
    found = np.zeros((group.channels + 1, weights.shape[axis]))
    np.add.at(found, np.moveaxis(numbers, axis, -1).reshape(-1, weights.shape[axis])[:, 0], rows)
    return found


def outputs_axis(border: Border) -> int:
    """The axis of a layer's weights that its outputs lie along: the one of two that channels do not."""
    reads = _numbers(border.reads)
    taken = next(a for a, n in enumerate(reads.shape) if n > 1)
    shape = border.constants.shape
    return max((a for a in (0, 1, len(shape) - 1) if a % len(shape) != taken), key=lambda a: (a == 0, a))


def _takes_shift(program: Program, border: Border) -> bool:
    """True if a constant in a layer's bias is the same as one in its input, at each place."""
    operator: Operator[Any] = border.operator
    kernel = kernels_of(program).table.get(operator.code)
    if kernel is None or kernel.weighted is None or kernel.weighted.bias is None:
        return False
    bias = kernel.weighted.bias
    held = operator.inputs[bias] if bias < len(operator.inputs) else None
    w, options = border.constants, operator.options
    is_point = w.ndim == 2 or w.size == w.shape[0] * max(w.shape[1:])
    # A window that reaches beyond the picture reads zeros there.
    is_inside = options.get("padding") == "VALID" or ("pads" in options and not any(options["pads"]))
    return (is_point or is_inside) and (held is None or held.is_constant)


def removed_by_group(weak: Weak, families: Iterable[Family]) -> dict[int, set[int]]:
    """Number of a group -> numbers of its factors that go; one of each group's channels stays."""
    found: dict[int, set[int]] = {}
    for family in families:
        more: dict[int, set[int]] = {}
        for group, channel in family.channels:
            more.setdefault(group, set()).add(channel)
        after: Mapping[int, set[int]] = {g: found.get(g, set()) | gone for g, gone in more.items()}
        if all(len(gone) < weak.groups[g].channels for g, gone in after.items()):
            found |= after
    return found
