"""A quantized file's layers beside those of what was made of it, each fed with the file's own tensors.

Over a whole network roundings add up, and hide a wrong scale. Of one layer that is fed with the same codes a
right implementation is a step off here and there; so little tells a wrong scale, zero point or weight from a
rounding. Grids are compared as they are stated, too: one that begins a step later rounds alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from thinflow.analysis.foreign_quant_params import params_of, step_of
from thinflow.analysis.precision import (
    RUNTIMES_TOLERANCE,
    is_quantized_as_it_runs,
    quantizes_as_it_runs,
)
from thinflow.compare.differences import difference
from thinflow.interpreter import Plan
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.order import execution_order
from thinflow.ir.types import UINT8, dtype
from thinflow.lift.grids import Grid, grid_of
from thinflow.optimize.axis_orders import Ordered
from thinflow.quantize.kernels.litert import INT8_KERNELS, INT16_KERNELS
from thinflow.typing import Array

_STEPS = 2.05
"""Steps that an element may be off; the rest is that of float32."""
_WIDE_STEPS = 32.05
"""The same for codes of sixteen bits, whose tables of functions are coarser than their steps."""
_SHARE = 0.3
"""Of the numbers that occur in a tensor, which may be a step off more often than not. Of twelve real networks
0.07 of the elements are, at most, in an old depthwise kernel that rounds twice."""
_HALVED = 0.25
"""Of all numbers are a step off where a kernel without XNNPACK rounds a product, and once more when it halves
it: every other one then lies between two codes, and half of these go the other way. A mean does so where its
scales are by a half to one apart."""
_SPREAD = 4.0
"""Standard deviations of their count: with few numbers it is often well above that share."""
_FEW = 4
"""As many may be however small a tensor is."""
_MOST_OF_CHANNEL = 0.8
"""Of the elements of a channel: if so many are off, its weights are."""
_OFF_GRID = 0.1
"""Of a step, by which a difference may be no whole number of steps: codes are whole."""
_SCHEMES = 5.0
"""Times the noise that codes for what a layer reads make by themselves: kernels choose a range for all of it
or for each row, around zero or not. Of 76 layers of a detector it is 2.4 times, at most."""
_MOST_BYTES = 1 << 28
"""Of all tensors that are held for comparing."""
_FLOAT_ROUNDINGS = 2
"""By which two numbers of a float may differ, however small the steps of its grid are."""
_NOTHING = 1e-30
"""A step, below which a range is of what never was anything but 0: LiteRT's factors do not reach there."""
_SAME = 1e-5
"""Relative difference of two scales that are one: a range has been stored in between."""


@dataclass(frozen=True)
class WrongLayer:
    """A layer that does not compute what the file's does.

    Attributes:
        name, op: of the file.
        problem: what is wrong, in words.
    """

    name: str
    op: str
    problem: str


@dataclass
class Layers:
    """What came of comparing layer by layer.

    Attributes:
        compared: how many quantized tensors were compared.
        left: names of those that were not: nothing there has their name, or their runtime does not give them.
        steps: the most steps of its grid that an element was off.
        as_it_runs: how many layers were compared that quantize what they read in each run.
        noise: the root mean square of what such a layer was off, relative to that of its numbers; the most.
        wrong: the first layer that is wrong.
        unseen: names of outputs behind the last quantized layer that were not compared.
        other_end: the first such output that is not what the file computes from the same tensors.
        reach_ends: whether every output is codes, or the numbers of codes, so that layers are all there is.
    """

    compared: int = 0
    left: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    other_end: WrongLayer | None = None
    steps: float = 0.0
    as_it_runs: int = 0
    noise: float = 0.0
    wrong: WrongLayer | None = None
    reach_ends: bool = False

    @property
    def sentence(self) -> str:
        """For people; "" if there is nothing to compare."""
        if not self.compared and self.as_it_runs:
            count = f"each of {self.as_it_runs} layers that quantize as they run"
            return (
                f"{count}, fed with the file's own values, is within {100 * self.noise:.2g} % of the file's"
            )
        if not self.compared:
            return "" if not self.left else "its layers could not be compared one by one"
        whole = round(self.steps)
        off = "equal to" if not whole else f"within {whole} step{'s' * (whole > 1)} of"
        count = "its quantized layer" if self.compared == 1 else f"each of {self.compared} quantized layers"
        left = f"; {len(self.left)} not compared so, first '{self.left[0]}'" if self.left else ""
        return f"{count}, fed with the file's own values, is {off} the file's{left}"


def quantized_tensors(own: Graph) -> list[Value]:
    """The tensors of a file's graph that its ops compute, and that have a grid."""
    computed = (n for n in own if n.tensor is None and n.inputs)
    return [v for n in computed for v in n.outputs if step_of(v)]


def is_coded(own: Value) -> bool:
    """True for a tensor of a file that is of codes, or of the real numbers that codes stand for."""
    is_real = own.node.op.lower().endswith(("dequantize", "dequantizelinear"))
    return bool(step_of(own) or (is_real and step_of(own.node.inputs[0])))


def affordable_tensors(own: Graph) -> list[Value]:
    """The tensors that a file's ops compute, in running order, as far as they can be held at once."""
    free = _MOST_BYTES
    found: list[Value] = []
    for node in execution_order(own):
        if node.tensor is not None or node.op.startswith("Placeholder"):
            continue
        free -= sum(v.spec.size_bytes or 0 for v in node.outputs)
        # What follows one that is not given would have the roundings of two layers.
        if free < 0:
            break
        found += node.outputs
    return found


def layer_by_layer(
    own: Graph,
    graph: Graph,
    pairs: Mapping[Value, Value],
    found: Mapping[Value, Array],
    fed: Mapping[Value, Array],
) -> Layers:
    """Run every layer of a graph on the tensors that a file's runtime computed.

    Args:
        own: the file's graph, in its own ops.
        graph: what was made of it, in TensorFlow's ops.
        pairs: tensors of the file -> values of the graph.
        found: tensors of the file, as its runtime gave them.
        fed: of the graph's inputs.
    """
    result = Layers(wrong=other_grid(pairs))
    if result.wrong is not None:
        return result
    given = Ordered({b: x for a, b in pairs.items() if (x := _as_fed(a, b, found, fed)) is not None})
    given.nearest(graph, fed, unlikely=False)
    result = _compared(own, graph, pairs, found, fed, given.arrays)
    # Its axes may be in an order that the sizes speak against, where several fit.
    if result.wrong is not None and given.nearest(graph, fed, unlikely=True):
        result = _compared(own, graph, pairs, found, fed, given.arrays)
    return result


def _compared(
    own: Graph,
    graph: Graph,
    pairs: Mapping[Value, Value],
    found: Mapping[Value, Array],
    fed: Mapping[Value, Array],
    given: Mapping[Value, Array],
) -> Layers:
    """As `layer_by_layer`, with the file's tensors in the order of the graph's axes."""
    result, made = Layers(), run_each(graph, given, fed)
    for a, b in pairs.items():
        if b not in made or step_of(a) < _NOTHING:
            continue
        steps, problem = _judged(a, b, given[b], made[b], _is_wide(a, found))
        result.compared += 1
        result.steps = max(result.steps, steps)
        if problem is not None:
            result.wrong = WrongLayer(a.name, a.node.op, problem)
            return result
    if quantizes_as_it_runs(own):
        _compare_as_they_run(result, own, pairs, fed, given, made)
    result.left += [v.name for v in quantized_tensors(own) if pairs.get(v) not in made]
    for end in own.outputs:
        if step_of(end):
            continue
        value = pairs.get(end)
        if value is None or value not in made:
            result.unseen.append(end.name)
        elif (problem := _other_numbers(given[value], made[value], grid_of(value.node))) is not None:
            result.other_end = result.other_end or WrongLayer(end.name, end.node.op, problem)
    return result


def _compare_as_they_run(
    result: Layers,
    own: Graph,
    pairs: Mapping[Value, Value],
    fed: Mapping[Value, Array],
    given: Mapping[Value, Array],
    made: Mapping[Value, Array],
) -> None:
    """Compare the layers that quantize what they read in each run, and the float ops between these.

    The largest number decides the step, and numbers halfway between two codes go either way: the answers of a
    deep network are far apart even in the kernels of one runtime, those of a layer are not.
    """
    result.left += [n.name for n in own if is_quantized_as_it_runs(n) and pairs.get(n.output()) not in made]
    # Inputs keep their names.
    read: dict[str, Array] = {v.name: x for v, x in fed.items()}
    read |= {a.name: given[b] for a, b in pairs.items() if b in given}
    for a, b in pairs.items():
        if b not in made or step_of(a) or given[b].dtype.kind != "f" or result.wrong is not None:
            continue
        if is_quantized_as_it_runs(a.node) and made[b].shape == given[b].shape:
            gap = made[b].astype(np.float64) - given[b]
            noise = float(np.linalg.norm(gap) / max(np.linalg.norm(given[b].astype(np.float64)), _NOTHING))
            result.as_it_runs, result.noise = result.as_it_runs + 1, max(result.noise, noise)
            # Numbers that are none are no noise of roundings, either.
            allowed = _SCHEMES * _own_noise(read.get(a.node.inputs[0].name))
            problem = None if noise <= allowed else f"it is {100 * noise:.2g} % off"
        else:
            problem = _other_numbers(given[b], made[b], grid_of(b.node))
        if problem is not None:
            result.wrong = WrongLayer(a.name, a.node.op, problem)


def _own_noise(read: Array | None) -> float:
    """The noise of rounding to eight bits around zero, beside the numbers; 0 where they are not known."""
    if read is None or not read.size:
        return 0.0
    step = float(np.abs(read).max()) / 127
    return step / math.sqrt(12) / max(float(np.sqrt(np.mean(np.square(read, dtype=np.float64)))), _NOTHING)


def _other_numbers(expected: Array, made: Array, grid: Grid | None) -> str | None:
    """What is wrong with an output that is not quantized, of layers in float; None if nothing is."""
    if made.shape != expected.shape:
        return f"it is {list(made.shape)} and not {list(expected.shape)}"
    gap = difference(expected, made)
    if gap.relative <= RUNTIMES_TOLERANCE or (grid is not None and gap.largest <= _STEPS * grid.scale):
        return None
    return f"{list(gap.index)} is {gap.after} and not {gap.before}"


def run_each(graph: Graph, given: Mapping[Value, Array], fed: Mapping[Value, Array]) -> dict[Value, Array]:
    """What the interpreter computes for some values, from the ones given for all before them.

    Args:
        graph: whose values they are.
        given: what whoever reads a value is to see.
        fed: of the graph's inputs.
    """
    cut, twins = cut_at(graph, given)
    wanted = [_twin(cut, v) for v in given]
    feeds = {_twin(cut, v): np.asarray(x) for v, x in fed.items()}
    feeds |= {twins[v]: x for v, x in given.items()}
    return dict(zip(given, Plan(cut, wanted, list(feeds)).run(feeds), strict=True))


def cut_at(graph: Graph, feeds: Mapping[Value, Array]) -> tuple[Graph, dict[Value, Value]]:
    """A copy in which these values are fed to whoever reads them; and what is fed, by value of the graph."""
    cut = graph.clone()
    twins: dict[Value, Value] = {}
    for value, array in feeds.items():
        attrs: dict[str, Attr] = {"dtype": value.dtype or dtype(array.dtype), "shape": ShapeAttr(array.shape)}
        twin = cut.add("Placeholder", name=cut.unique_name(f"{value.node.name}/given"), attrs=attrs)
        _twin(cut, value).replace_uses(twin.output())
        twins[value] = twin.output()
    return cut, twins


def _twin(copy: Graph, value: Value) -> Value:
    return copy.node(value.node.name).output(value.port)


def _as_fed(
    own: Value, value: Value, found: Mapping[Value, Array], fed: Mapping[Value, Array]
) -> Array | None:
    """A tensor of the file as a value of the graph: real numbers for its codes; None if it cannot be."""
    array, kind = found.get(own), value.dtype
    if array is None or value in fed or kind is None or array.dtype.kind not in "fiub":
        return None
    grid = params_of(own)
    if grid is not None and array.dtype.kind in "iu" and not kind.is_integer:
        array = grid.real(array)
    if array.dtype.kind == kind.numpy().kind == "f":
        array = array.astype(kind.numpy())
    return array if array.dtype == kind.numpy() else None


def other_grid(pairs: Mapping[Value, Value]) -> WrongLayer | None:
    """The first tensor of a file of which a graph states another scale or zero point than the file.

    Args:
        pairs: tensors of the file -> values of the graph.
    """
    for own, value in pairs.items():
        if (problem := _other_grid(own, value)) is not None:
            return WrongLayer(own.name, own.node.op, problem)
    return None


def _other_grid(own: Value, value: Value) -> str | None:
    """What is wrong with the grid that a graph states of a tensor; None if nothing is, or it states none."""
    params, grid = params_of(own), grid_of(value.node)
    if params is None or params.is_per_channel or grid is None:
        return None
    scale, zero = params.scale[0], (params.zero_point or (0,))[0]
    if is_dictated(grid) or scale < _NOTHING:
        return None
    if not _is_same_scale(scale, grid.scale):
        return f"its scale is {grid.scale:.6g} and not {scale:.6g}"
    # Codes of another sign are moved by half of their range.
    moved = 0 if own.dtype is grid.kind else _sign_moves(own, grid.limits[0])
    if moved is not None and zero + moved != grid.zero_point:
        return f"its zero_point is {grid.zero_point - moved} and not {zero}"
    return None


def _is_same_scale(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME)


def is_dictated(grid: Grid) -> bool:
    """True if a kernel of LiteRT gives its results on this grid and no other, whatever a file asks for."""
    tables = INT8_KERNELS.table, INT16_KERNELS.table
    dictated = [k.fixed for table in tables for k in table.values() if k.fixed is not None]
    # As int8: codes of uint8 are the same numbers, moved up.
    zero = grid.zero_point - 128 if grid.kind is UINT8 else grid.zero_point
    return any((f.scale, f.zero_point) == (grid.scale, zero) for f in dictated)


def _sign_moves(own: Value, least: int) -> int | None:
    """By how much codes of a file's tensor are moved if the least of them becomes this; None if unknown."""
    if own.dtype is None or not own.dtype.is_integer:
        return None
    info = np.iinfo(own.dtype.numpy())
    return least - int(info.min)


def _judged(
    own: Value, value: Value, expected: Array, made: Array, is_wide: bool
) -> tuple[float, str | None]:
    """How many steps a result is off; and what is wrong with it, None if nothing is."""
    if made.shape != expected.shape:
        return 0.0, f"it is {list(made.shape)} and not {list(expected.shape)}"
    if not made.size:
        return 0.0, None
    is_code = made.dtype.kind in "iu"
    gap = made.astype(np.float64) - expected
    if not is_code:
        # Biases may be so large that their steps lie between two floats.
        gap = np.where(np.abs(gap) <= _FLOAT_ROUNDINGS * np.spacing(np.abs(made)), 0, gap)
    off = gap / (1.0 if is_code else step_of(own))
    away = np.abs(off)
    if _is_per_channel(own):
        # Weights on their way: they are copied and not computed.
        away_most = float(away.max())
        return away_most, _far(away, made, expected) if away_most > _OFF_GRID else None
    most = float(away.max())
    if most > (_WIDE_STEPS if is_wide else _STEPS):
        return most, _far(away, made, expected)
    grid = grid_of(value.node)
    on_grid = is_code or (grid is not None and _is_same_scale(grid.scale, step_of(own)))
    if on_grid and np.count_nonzero(np.abs(off - np.rint(off)) > _OFF_GRID) > _allowed(made.size):
        return most, "its numbers are none that the file's codes stand for"
    # What is not rounded here, and is there, is up to half a step off by that alone.
    wrong = away > (0.5 if on_grid else 1.0)
    if not is_wide and _hits_levels(wrong, expected):
        count = int(np.count_nonzero(wrong))
        return most, f"{count} of its {made.size} elements are off, which roundings are not"
    return most, None


def _allowed(size: int) -> float:
    return max(_FEW, _SHARE * size)


def _rounded_twice(size: int) -> float:
    """How many of so many numbers chance may take a step off."""
    return _HALVED * size + _SPREAD * math.sqrt(_HALVED * (1 - _HALVED) * size)


def _hits_levels(wrong: Array, expected: Array) -> bool:
    """True if elements are off by what they are, or by their channel, and not here and there.

    Roundings are off where a number falls between two codes, which few numbers of a level do; a wrong scale
    is off for all numbers of many levels. Where there is one level only, it may be one between two codes.
    """
    if not wrong.any():
        return False
    levels = np.unique(expected).size
    if _off_levels(wrong.ravel(), expected.ravel()) > max(_allowed(levels), _rounded_twice(levels)):
        return True
    for axis in {1 % max(wrong.ndim, 1), wrong.ndim - 1} if wrong.ndim > 1 else ():
        if wrong.shape[axis] == 1:
            continue  # the whole, which has been judged
        masks, values = (np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1) for a in (wrong, expected))
        for channel in np.flatnonzero(masks.mean(axis=1) > _MOST_OF_CHANNEL):
            levels = np.unique(values[channel]).size
            if levels > _FEW and _off_levels(masks[channel], values[channel]) > _MOST_OF_CHANNEL * levels:
                return True
    return False


def _off_levels(wrong: Array, expected: Array) -> int:
    """How many of the numbers that occur are off more often than not."""
    _, level = np.unique(expected, return_inverse=True)
    return int(np.count_nonzero(np.bincount(level, wrong) > 0.5 * np.bincount(level)))


def _far(away: Array, made: Array, expected: Array) -> str:
    place = np.unravel_index(int(away.argmax()), away.shape)
    where = [int(i) for i in place]
    return f"{where} is {made[place]:.6g} and not {expected[place]:.6g}, {float(away[place]):.3g} steps off"


def _is_wide(own: Value, found: Mapping[Value, Array]) -> bool:
    """True if a tensor of the file holds codes of more than eight bits, or what they stand for."""
    codes = next((found[v] for v in (own, *own.node.inputs[:1]) if v in found), None)
    return codes is not None and codes.dtype.kind in "iu" and codes.dtype.itemsize > 1


def _is_per_channel(own: Value) -> bool:
    behind = [own, *own.node.inputs[:1]]
    grids = [params_of(v) for v in behind]
    return any(grid is not None and grid.is_per_channel for grid in grids)
