"""Functions that move, cut, join and gather."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BOOL, FLOAT, INT32, DType, dtype
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.config import Literal
from thinflow.keras.layers.core import gathered
from thinflow.keras.layers.reshaping import repeated
from thinflow.keras.nodes import common
from thinflow.keras.operations.elementwise import first, tensor
from thinflow.keras.registry import Result, operation


def number(c: Call, name: str, place: int, default: int | None = None) -> int:
    """A whole number among the arguments or the options."""
    value = c.argument(name, place, c.get(name, default))
    if isinstance(value, bool) or not isinstance(value, int):
        raise c.refuse(f"its {name} is {str(value)[:40]}")
    return value


def numbers(c: Call, name: str, place: int, default: object = None) -> list[int] | None:
    """Whole numbers among the arguments or the options; None where there are none."""
    value = c.argument(name, place, c.get(name, default))
    if value is None:
        return None
    items = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(n, bool) or not isinstance(n, int) for n in items):
        raise c.refuse(f"its {name} is {str(value)[:40]}")
    return [n for n in items if isinstance(n, int)]


@operation("Reshape", "reshape")
def reshape(c: Call) -> Result:
    """The whole shape, the batch with it; -1 stands for what is left."""
    x = first(c)
    given = c.argument("newshape", 1, c.argument("shape", 1, c.get("newshape", c.get("shape"))))
    if isinstance(given, Value):
        return c.emit("Reshape", x, given, Tshape=c.type_of(given))
    if not isinstance(given, list | tuple):
        raise c.refuse(f"its shape is {given}")
    sizes: list[Value | int | None] = []
    for size in given:
        if not isinstance(size, Value | int) and size is not None:
            raise c.refuse(f"its shape is {str(given)[:60]}")
        sizes.append(size)
    return c.shaped(x, sizes)


@operation("Transpose", "transpose", ignores=("conjugate",))
def transpose(c: Call) -> Result:
    x = first(c)
    perm = numbers(c, "axes", 1) or numbers(c, "perm", 1) or list(range(c.rank(x)))[::-1]
    return c.transpose(x, [c.axis(n, len(perm)) for n in perm])


@operation("Swapaxes")
def swapaxes(c: Call) -> Result:
    x = first(c)
    perm = list(range(c.rank(x)))
    one, two = (c.axis(number(c, f"axis{n}", n), len(perm)) for n in (1, 2))
    perm[one], perm[two] = two, one
    return c.transpose(x, perm)


@operation("Moveaxis")
def moveaxis(c: Call) -> Result:
    x = first(c)
    rank = c.rank(x)
    source, target = (numbers(c, n, p) or [] for n, p in (("source", 1), ("destination", 2)))
    places = dict(zip((c.axis(n, rank) for n in target), (c.axis(n, rank) for n in source), strict=True))
    left = iter(n for n in range(rank) if n not in places.values())
    return c.transpose(x, [places[n] if n in places else next(left) for n in range(rank)])


@operation("ExpandDims", "expand_dims")
def expand_dims(c: Call) -> Result:
    x = first(c)
    for axis in sorted(numbers(c, "axis", 1, 0) or []):
        x = c.expand(x, axis)
    return x


@operation("Squeeze", "squeeze")
def squeeze(c: Call) -> Result:
    x = first(c)
    axes = numbers(c, "axis", 1)
    places = [n for n, size in enumerate(c.shape(x)) if size == 1] if axes is None else axes
    return c.emit("Squeeze", x, squeeze_dims=tuple(c.axis(n, c.rank(x)) for n in places))


@operation("Ravel")
def ravel(c: Call) -> Result:
    return c.reshape(first(c), (None,))


@operation("BroadcastTo", "broadcast_to")
def broadcast_to(c: Call) -> Result:
    x = first(c)
    sizes = numbers(c, "shape", 1) or []
    return c.emit("BroadcastTo", x, c.const(sizes, "shape"), Tidx=INT32)


@operation("Tile", "tile")
def tile(c: Call) -> Result:
    x = first(c)
    given = c.argument("multiples", 1, c.argument("repeats", 1, c.get("repeats")))
    if isinstance(given, Value):
        return c.emit("Tile", x, given, Tmultiples=c.type_of(given))
    items = given if isinstance(given, list | tuple) else [given]
    parts: list[Value | int] = [n for n in items if isinstance(n, Value | int)]
    if len(parts) != len(items):
        raise c.refuse(f"it repeats {str(given)[:60]} times")
    for _ in range(len(parts) - c.rank(x)):
        x = c.expand(x, 0)
    missing = c.rank(x) - len(parts)
    return c.emit("Tile", x, c.sizes_vector([*[1] * missing, *parts]), Tmultiples=INT32)


@operation("Repeat", "repeat")
def repeat(c: Call) -> Result:
    x, axis = first(c), c.argument("axis", 2, c.get("axis"))
    times = numbers(c, "repeats", 1) or []
    if axis is None:
        x, axis = c.reshape(x, (None,)), 0
    if not isinstance(axis, int):
        raise c.refuse(f"its axis is {axis}")
    if len(times) != 1:
        axis = c.axis(axis, c.rank(x))
        if len(times) != c.size(x, axis) or min(times) < 0:
            raise c.refuse(f"its {c.size(x, axis)} elements are repeated {str(times)[:40]} times")
        places = c.const(np.repeat(np.arange(len(times), dtype=np.int32), times), "places")
        return gathered(c, x, places, axis)
    return repeated(c, x, c.axis(axis, c.rank(x)), times[0])


@operation("Concatenate", "concat")
def concatenate(c: Call) -> Result:
    axis = number(c, "axis", 1, -1)
    return c.concat(c.xs, c.axis(axis, c.rank(c[0])))


@operation("Stack", "stack", "Hstack", "Vstack", "Dstack")
def stack(c: Call) -> Result:
    if c.layer.kind == "Dstack":
        if c.rank(c[0]) < 2:
            raise c.refuse("it stacks vectors")
        return c.concat([c.expand(x, 2) if c.rank(x) == 2 else x for x in c.xs], 2)
    if c.layer.kind == "Hstack":
        return c.concat(c.xs, 1 if c.rank(c[0]) > 1 else 0)
    if c.layer.kind == "Vstack":
        if c.rank(c[0]) < 2:
            raise c.refuse("it stacks vectors, of which Keras's backends make different things")
        return c.concat(c.xs, 0)
    axis = number(c, "axis", 1, 0)
    given = c.args[0]
    items = given if isinstance(given, list | tuple) else [given]
    like = c.xs[0] if c.xs else None
    parts = [c.literal(item, like) for item in items]
    return c.emit("Pack", *parts, axis=c.axis(axis, c.rank(parts[0]) + 1), N=len(parts), name="stack")


@operation("Split", "split", "Hsplit", "Vsplit", "Dsplit", "ArraySplit")
def split(c: Call) -> Result:
    """A number of equal parts; sizes (TensorFlow), or places of cuts (Keras 3)."""
    x = first(c)
    c.read |= {"value", "num"}
    axis = {"Hsplit": min(c.rank(x) - 1, 1), "Vsplit": 0, "Dsplit": 2}.get(c.layer.kind)
    axis = c.axis(number(c, "axis", 2, 0) if axis is None else axis, c.rank(x))
    given = c.argument(
        "num_or_size_splits", 1, c.argument("indices_or_sections", 1, c.get("indices_or_sections"))
    )
    place = c.const(axis, "split/split_dim")
    if isinstance(given, int) and c.layer.kind == "ArraySplit":
        # The first parts have one element more, where it does not come out even.
        size = c.size(x, axis)
        given = [size // given * n + min(n, size % given) for n in range(1, given)]
    if isinstance(given, int):
        node = c.node("Split", place, x, name="split", num_split=given, T=c.type_of(x))
        return [node.output(n) for n in range(given)]
    given = given.value if isinstance(given, Literal) else given
    sizes = [n for n in given if isinstance(n, int)] if isinstance(given, list | tuple) else []
    if not isinstance(given, list | tuple) or len(sizes) != len(given):
        raise c.refuse(f"it is split by {str(given)[:60]}")
    if c.generation >= 3:
        ends = [*sizes, c.size(x, axis)]
        sizes = [end - begin for begin, end in zip([0, *sizes], ends, strict=True)]
    kinds: dict[str, Any] = {"T": c.type_of(x), "Tlen": INT32, "num_split": len(sizes)}
    node = c.node("SplitV", x, c.const(sizes, "split/sizes"), place, name="split", **kinds)
    return [node.output(n) for n in range(len(sizes))]


@operation("Unstack", "unstack")
def unstack(c: Call) -> Result:
    x = first(c)
    c.read |= {"value"}
    axis = c.axis(number(c, "axis", 2, 0), c.rank(x))
    given = c.argument("num", 1, c.get("num"))
    count = given if isinstance(given, int) else c.size(x, axis)
    node = c.node("Unpack", x, name="unstack", num=count, axis=axis)
    return [node.output(n) for n in range(count)]


@operation("Pad", "pad")
def pad(c: Call) -> Result:
    x = first(c)
    widths = c.argument("paddings", 1, c.argument("pad_width", 1, c.get("pad_width")))
    mode = str(c.argument("mode", 2, c.get("mode", "constant"))).lower()
    value = c.argument("constant_values", 3, 0)
    rows = _widths(c, widths, c.rank(x))
    around = c.const(rows, "Pad/paddings")
    if mode == "constant":
        if value not in (None, 0):
            return c.emit("PadV2", x, around, c.literal(value, x), Tpaddings=INT32)
        return c.emit("Pad", x, around, Tpaddings=INT32)
    if mode not in ("reflect", "symmetric"):
        raise c.refuse(f"it pads by the mode '{mode}'")
    return c.emit("MirrorPad", x, around, mode=mode.upper(), Tpaddings=INT32)


def _widths(c: Call, given: object, rank: int) -> list[list[int]]:
    if isinstance(given, int):
        return [[given, given]] * rank
    rows = given if isinstance(given, list | tuple) else []
    if len(rows) == 2 and all(isinstance(n, int) for n in rows):
        rows = [rows] * rank
    found = [[n for n in row if isinstance(n, int)] for row in rows if isinstance(row, list | tuple)]
    if len(found) != rank or any(len(row) != 2 for row in found):
        raise c.refuse(f"its paddings are {str(given)[:60]}")
    return found


@operation("Flip", "reverse")
def flip(c: Call) -> Result:
    x = first(c)
    axes = numbers(c, "axis", 1)
    places = list(range(c.rank(x))) if axes is None else axes
    return c.emit("ReverseV2", x, c.const(places, "axis"), Tidx=INT32)


@operation("Rot90")
def turned(c: Call) -> Result:
    """A quarter of a turn in the plane of two axes, so many times."""
    x, times = tensor(c, "array", 0), number(c, "k", 1, 1) % 4
    one, two = (c.axis(n, c.rank(x)) for n in numbers(c, "axes", 2, [0, 1]) or [])
    if times == 2 and c.shape(x)[one] != c.shape(x)[two]:
        raise c.refuse("it turns a plane that is no square by half, which Keras's backends do differently")
    flips: list[int] = {0: [], 1: [two], 2: [one, two], 3: [one]}[times]
    x = c.emit("ReverseV2", x, c.const(flips, "axis"), Tidx=INT32) if flips else x
    order = list(range(c.rank(x)))
    order[one], order[two] = order[two], order[one]
    return c.transpose(x, order) if times % 2 else x


@operation("Rearrange")
def rearrange(c: Call) -> Result:
    """Axes by their names: "b (h k) c -> b h (k c)"."""
    x, pattern = tensor(c, "tensor", 0), str(c.argument("pattern", 1))
    given = {name: size for name, size in c.kwargs.items() if isinstance(size, int)}
    c.read |= set(given)
    before, _, after = pattern.partition("->")
    source, target = (
        [part.strip("()").split() for part in re.findall(r"\w+|\(.*?\)", side)] for side in (before, after)
    )
    names, wanted = ([name for group in side for name in group] for side in (source, target))
    if len(source) != c.rank(x) or len(set(names)) != len(names) or sorted(names) != sorted(wanted):
        raise c.refuse(f"its pattern is {pattern[:60]!r}, and its input has {c.rank(x)} axes")
    sizes: dict[str, Value | int] = {}
    for axis, group in enumerate(source):
        left = [name for name in group if name not in given]
        known = math.prod(given[name] for name in group if name in given)
        sizes |= {name: given[name] for name in group if name in given}
        if len(left) > 1 or not known:
            raise c.refuse(f"its pattern {pattern[:60]!r} does not say the sizes of {', '.join(left)}")
        if left and len(group) == 1:
            sizes[left[0]] = c.dim(x, axis)
        elif left:
            sizes[left[0]] = c.size(x, axis) // known
    y = c.transpose(c.shaped(x, [sizes[name] for name in names]), [names.index(name) for name in wanted])

    def product(group: Sequence[str]) -> Value | int:
        """The size of axes that become one."""
        fixed = math.prod(n for n in (sizes[name] for name in group) if isinstance(n, int))
        result: Value | int = fixed
        for size in (sizes[name] for name in group):
            result = c.dim_of("Mul", size, fixed) if isinstance(size, Value) else result
        return result

    return c.shaped(y, [product(group) for group in target])


@operation("Roll", "roll")
def roll(c: Call) -> Result:
    x = first(c)
    shift, axes = numbers(c, "shift", 1), numbers(c, "axis", 2)
    if axes is None and shift is not None and len(shift) == 1:
        row = c.emit("Roll", c.reshape(x, (None,)), c.const(shift, "shift"), c.const([0], "axis"),
                     Tshift=INT32, Taxis=INT32)  # fmt: skip
        return c.shaped(row, [c.dim(x, n) for n in range(c.rank(x))])
    if shift is None or axes is None or len(shift) != len(axes):
        raise c.refuse(f"it rolls by {shift} along {axes}")
    places = [c.axis(n, c.rank(x)) for n in axes]
    return c.emit("Roll", x, c.const(shift, "shift"), c.const(places, "axis"), Tshift=INT32, Taxis=INT32)


@operation("Take", "gather", ignores=("validate_indices", "batch_dims", "mode"))
def take(c: Call) -> Result:
    if c.kwargs.get("batch_dims"):
        raise c.refuse("it gathers in each sample by its own places")
    table = c.literal(c.argument("params", 0, c.argument("x", 0)))
    given = c.argument("indices", 1)
    axis = c.argument("axis", 2, c.get("axis"))
    places = c.literal(given) if isinstance(given, Value | Literal) else c.const(given, "indices")
    if axis is None:
        # TensorFlow's default is the first axis, Keras's that of all elements in a row.
        axis, table = 0, c.reshape(table, (None,)) if c.generation >= 3 else table
    if not isinstance(axis, int):
        raise c.refuse(f"its axis is {axis}")
    if not c.type_of(places).is_integer:
        places = c.cast(places, INT32)
    axis = c.axis(axis, c.rank(table))
    if c.generation >= 3:
        places = from_front(c, places, c.dim(table, axis))
    return gathered(c, table, places, axis)


def from_front(c: Call, places: Value, size: Value | int) -> Value:
    """Places, of which those below 0 count from the end."""
    if c.type_of(places).kind == "u":
        return places
    content = places.node.get("value")
    if isinstance(content, Tensor) and isinstance(size, int):
        known = content.numpy()
        return c.const(np.where(known < 0, known + size, known), "indices") if (known < 0).any() else places
    length = c.cast(size, c.type_of(places)) if isinstance(size, Value) else c.const(size, like=places)
    return activations.where(c, c.emit("Less", places, 0), c.emit("AddV2", places, length), places)


@operation("OneHot", "one_hot")
def one_hot(c: Call) -> Result:
    places = c.literal(c.argument("indices", 0, c.args[0] if c.args else None))
    count = number(c, "depth", 1, c.layer.options.get("num_classes"))  # type: ignore[arg-type]
    c.read |= {"num_classes", "dtype", "x"}
    axis = number(c, "axis", 4, -1)
    name = c.kwargs.get("dtype") or c.layer.options.get("dtype")
    element = dtype(name) if isinstance(name, str) else FLOAT
    on, off = (c.literal(c.argument(k, p, v), c.const(0.0, like=None) if element is INT32 else None)
               for k, p, v in (("on_value", 2, 1), ("off_value", 3, 0)))  # fmt: skip
    values = [c.cast(v, element) for v in (on, off)]
    return c.emit(
        "OneHot", places, c.const(count, "depth"), *values, axis=axis, T=element, TI=c.type_of(places)
    )


@operation("shape")
def shape(c: Call) -> Result:
    name = c.argument("out_type", 1, "int32")
    return c.emit("Shape", first(c), out_type=dtype(str(name)))


@operation("Shape")
def shape_list(c: Call) -> Result:
    """The sizes, each by itself."""
    x = first(c)
    return [c.literal(c.dim(x, axis)) for axis in range(c.rank(x))]


@operation(
    *("Cumsum", "math.cumsum", "cumsum", "Cumprod", "math.cumprod", "Nancumsum", "Nancumprod"),
    ignores=("exclusive", "reverse"),
)
def cumsum(c: Call) -> Result:
    x = first(c)
    flags: dict[str, Any] = {key: bool(c.kwargs.get(key)) for key in ("exclusive", "reverse")}
    axis = c.argument("axis", 1, c.get("axis", None if c.generation >= 3 else 0))
    if axis is None:
        x, axis = c.reshape(x, (None,)), 0
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise c.refuse(f"its axis is {str(axis)[:40]}")
    name = c.layer.options.get("dtype")
    x = c.cast(x, dtype(name)) if isinstance(name, str) and c.layer.is_operation else x
    if c.layer.kind.startswith("Nan") and c.type_of(x).is_floating:
        neutral = c.const(1.0 if c.layer.kind == "Nancumprod" else 0.0, like=x)
        x = activations.where(c, c.emit("IsNan", x), neutral, x)
    x = c.cast(x, INT32) if c.type_of(x) is BOOL else x
    op = "Cumprod" if "umprod" in str(c.layer.options.get("function", c.layer.kind)) else "Cumsum"
    return c.emit(op, x, c.const(c.axis(axis, c.rank(x)), "axis"), Tidx=INT32, **flags)


@operation("ZerosLike", "zeros_like", "EmptyLike", ignores=("optimize",))
def zeros_like(c: Call) -> Result:
    return c.emit("ZerosLike", first(c))


@operation("OnesLike", "ones_like", ignores=("optimize",))
def ones_like(c: Call) -> Result:
    return c.emit("OnesLike", first(c))


# --- filled -------------------------------------------------------------------------------------------------


def _element(c: Call, default: DType) -> DType:
    """The type that is named for the result."""
    name = c.layer.options.get("dtype")
    c.read.add("dtype")
    return dtype(name) if isinstance(name, str) else default


@operation("Full")
def full(c: Call) -> Result:
    value = c.cast(tensor(c, "fill_value", 0), _element(c, FLOAT))
    return c.emit("BroadcastTo", value, c.const(numbers(c, "shape", 9) or [], "shape"), Tidx=INT32)


@operation("Linspace", "Logspace", "Geomspace")
def evenly_spaced(c: Call) -> Result:
    """So many numbers from one to another; their powers (Logspace), or with even ratios (Geomspace)."""
    given = [c.argument("start", 0), c.argument("stop", 1)]
    like = next((v for v in given if isinstance(v, Value)), None)
    start, stop = (c.literal(v, like) for v in given)
    both = common(c.type_of(start), c.type_of(stop))
    element = _element(c, both if both.is_floating else FLOAT)
    if not element.is_floating:
        raise c.refuse(f"its numbers are of the type {element.name}")
    start, stop = c.cast(start, element), c.cast(stop, element)
    sign = c.emit("Sign", start)
    if c.layer.kind == "Geomspace":
        start, stop = (c.emit("Log", c.emit("Abs", v)) for v in (start, stop))
    count, with_end = number(c, "num", 9, 50), c.flag("endpoint", True)
    step = c.emit("Mul", c.emit("Sub", stop, start), 1 / max(count - with_end, 1))
    rank = max(c.rank(start), c.rank(stop))
    axis = c.axis(number(c, "axis", 9, 0), rank + 1)
    shape = [count if n == axis else 1 for n in range(rank + 1)]
    places = c.const(np.arange(count, dtype=element.numpy()).reshape(shape), "places")

    def along(v: Value) -> Value:
        """With the new axis, of size 1."""
        v = c.reshape(v, [1] * rank) if rank and not c.rank(v) else v
        return c.expand(v, axis)

    if rank and {c.rank(start), c.rank(stop)} not in ({rank}, {0, rank}):
        raise c.refuse("its ends have different numbers of axes")
    y = c.emit("AddV2", along(start), c.emit("Mul", along(step), places))
    if c.layer.kind == "Logspace":
        y = c.emit("Pow", c.const(c.number("base", 10.0), like=y), y)
    if c.layer.kind == "Geomspace":
        y = c.emit("Mul", c.emit("Exp", y), along(sign))
    return [y, step] if c.flag("retstep") else y


@operation("Meshgrid")
def meshgrid(c: Call) -> Result:
    """Each vector along an axis of its own."""
    xs = [c.reshape(c.literal(x), (None,)) for x in c.args]
    order = list(range(len(xs)))
    if c.choice("indexing", "xy", "ij") == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    sizes = c.sizes_vector([c.dim(xs[n], 0) for n in order])
    shaped = [c.reshape(x, [None if k == n else 1 for k in order]) for n, x in enumerate(xs)]
    return [c.emit("BroadcastTo", x, sizes, Tidx=INT32) for x in shaped]


@operation("Ndim")
def dimensions(c: Call) -> Result:
    return c.const(c.rank(first(c)))


# --- slices -------------------------------------------------------------------------------------------------


@operation("GetItem", "__operators__.getitem")
def getitem(c: Call) -> Result:
    """x[key] of whole numbers, slices, new axes and dots."""
    x = first(c)
    key = c.argument("slice_spec", 1, c.argument("key", 1))
    return sliced(c, x, key if isinstance(key, list | tuple) else [key])


def sliced(c: Call, x: Value, key: Sequence[object]) -> Value:
    """A StridedSlice, as TensorFlow makes it of Python's brackets."""
    begin: list[Value | int] = []
    end: list[Value | int] = []
    strides: list[Value | int] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for bit, item in enumerate(key):
        numbers_of: tuple[Value | int, Value | int, Value | int] = (0, 0, 1)
        if item is ...:
            masks["ellipsis_mask"] |= 1 << bit
        elif item is None:
            masks["new_axis_mask"] |= 1 << bit
        elif isinstance(item, slice):
            for name, bound in (("begin_mask", item.start), ("end_mask", item.stop)):
                masks[name] |= (bound is None) << bit
            numbers_of = (_place(c, item.start, 0), _place(c, item.stop, 0), _place(c, item.step, 1))
        else:
            place = _place(c, item, 0)
            masks["shrink_axis_mask"] |= 1 << bit
            after = c.dim_of("AddV2", place, 1)
            # Up to -1 would be up to nothing; TensorFlow's op looks at the beginning only.
            numbers_of = (place, after, 1)
        for part, place in zip((begin, end, strides), numbers_of, strict=True):
            part.append(place)
    inputs = [c.sizes_vector(part) for part in (begin, end, strides)]
    return c.emit("StridedSlice", x, *inputs, name="strided_slice", Index=INT32, **masks)


def _place(c: Call, item: object, default: int) -> Value | int:
    if item is None:
        return default
    if isinstance(item, Value) and c.type_of(item).is_integer and not c.rank(item):
        return c.cast(item, INT32)
    if isinstance(item, bool) or not isinstance(item, int) or abs(item) > math.pow(2, 31):
        raise c.refuse(f"it is cut by {str(item)[:60]}")
    return item
