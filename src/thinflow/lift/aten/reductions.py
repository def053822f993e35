"""ATen's reductions, running sums, orders and choices of the largest."""

from __future__ import annotations

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32, INT64
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.arithmetic import truth


def _keeps(a: Arguments) -> bool:
    return a.flag("keepdim")


def _over(a: Arguments, op: str, x: Value, axes: list[int]) -> Value:
    keep = _keeps(a)
    # Of a number alone nothing is left to reduce.
    if not axes:
        return a.emit("Identity", x)
    return a.emit(op, x, a.integers(axes), keep_dims=keep)


def _axes(a: Arguments) -> list[int]:
    return [] if a.rank == 0 and not a.ints("dim", ()) else a.axes() if a.rank else []


@aten("sum", "sum.dim_IntList", ignores=("dtype",))
def _sum(a: Arguments) -> Value:
    return _over(a, "Sum", a.cast(a.x, a.dtype), _axes(a))


@aten("mean", "mean.dim", ignores=("dtype",))
def _mean(a: Arguments) -> Value:
    return _over(a, "Mean", a.cast(a.x, a.dtype), _axes(a))


@aten("nansum", "nanmean", ignores=("dtype",))
def _nansum(a: Arguments) -> Value:
    """Of what are numbers."""
    x = a.body.term(a.cast(a.x, a.dtype))
    if not x.dtype.is_floating:
        return _over(a, "Sum", x.value, _axes(a))
    is_none = x.apply("IsNan")
    total = _over(a, "Sum", where(is_none, x.of(0), x).value, _axes(a))
    if a.call.node.op == "aten.nansum":
        return total
    count = _over(a, "Sum", (~is_none).cast(x.dtype).value, _axes(a))
    return (a.body.term(total) / a.body.term(count)).value


@aten("prod", "prod.dim_int", ignores=("dtype",))
def _prod(a: Arguments) -> Value:
    return _over(a, "Prod", a.cast(a.x, a.dtype), _axes(a))


@aten("amax", "max")
def _amax(a: Arguments) -> Value:
    return _over(a, "Any" if a.dtype is BOOL else "Max", a.x, _axes(a))


@aten("amin", "min")
def _amin(a: Arguments) -> Value:
    return _over(a, "All" if a.dtype is BOOL else "Min", a.x, _axes(a))


@aten("any", "any.dim", "any.dims")
def _any(a: Arguments) -> Value:
    return _over(a, "Any", truth(a, a.x), _axes(a))


@aten("all", "all.dim", "all.dims")
def _all(a: Arguments) -> Value:
    return _over(a, "All", truth(a, a.x), _axes(a))


def _extreme(name: str, op: str, place: str) -> None:
    """Values and places along an axis; the first place of equal ones, as PyTorch gives it on CPUs."""

    @aten(f"{name}.dim")
    def rule(a: Arguments) -> list[Value]:
        axis, keep = a.axis(), _keeps(a)
        # TensorFlow orders numbers only: 0 and 1, then, for false and true.
        x = a.cast(a.x, INT32) if a.dtype is BOOL else a.x
        y = a.emit(op, x, a.integers([axis]), keep_dims=keep)
        if not a.is_read(1):
            return [y]
        places = a.emit(place, x, a.call.constant(axis))
        return [y, a.emit("ExpandDims", places, a.call.constant(axis)) if keep else places]


_extreme("max", "Max", "ArgMax")
_extreme("min", "Min", "ArgMin")


def _place(name: str, op: str) -> None:
    @aten(name)
    def rule(a: Arguments) -> Value:
        keep = _keeps(a)
        if a.has("dim"):
            axis = a.axis()
            y = a.emit(op, a.x, a.call.constant(axis))
            return a.emit("ExpandDims", y, a.call.constant(axis)) if keep else y
        if keep:
            raise UnsupportedOp("it keeps the axes of the place in a flattened tensor")
        return a.emit(op, a.term().reshape([-1]).value, a.call.constant(0))


_place("argmax", "ArgMax")
_place("argmin", "ArgMin")


# --- spread -------------------------------------------------------------------------------------------------


def _variance(a: Arguments) -> Term:
    """The mean of squared distances; divided by what is left of the count after a correction."""
    x, axes = a.term(), _axes(a)
    correction = a.number("correction", 1) if a.has("correction") else float(a.flag("unbiased", True))
    keep = _keeps(a)
    count = 1
    for axis in axes:
        count *= x.static_size(axis, "the number of what it varies over")
    if count <= correction:
        raise UnsupportedOp(f"it divides by {count - correction:g}")
    mean = x.mean(*axes, keep=True)
    y = x.apply("SquaredDifference", mean).mean(*axes, keep=keep)
    # Bessel's correction as a factor, as the mean has divided by the whole count.
    return y if not correction else y * (count / (count - correction))


@aten("var.correction", "var.dim", "var")
def _var(a: Arguments) -> Value:
    return _variance(a).value


@aten("std.correction", "std.dim", "std")
def _std(a: Arguments) -> Value:
    return _variance(a).sqrt().value


@aten("var_mean.correction", "var_mean.dim", "var_mean")
def _var_mean(a: Arguments) -> list[Value]:
    return [_variance(a).value, _over(a, "Mean", a.x, _axes(a))]


@aten("std_mean.correction", "std_mean.dim", "std_mean")
def _std_mean(a: Arguments) -> list[Value]:
    return [_variance(a).sqrt().value, _over(a, "Mean", a.x, _axes(a))]


@aten("count_nonzero", "count_nonzero.dim_IntList")
def _count_nonzero(a: Arguments) -> Value:
    axes = [a.axis()] if a.has("dim") and isinstance(a.call.get("dim"), int) else _axes(a)
    return a.emit("Sum", a.cast(truth(a, a.x), INT64), a.integers(axes), keep_dims=False)


@aten("aminmax")
def _least_and_largest(a: Arguments) -> list[Value]:
    axes, keep = [a.axis()] if a.has("dim") else list(range(a.rank)), _keeps(a)
    return [a.emit(op, a.x, a.integers(axes), keep_dims=keep) for op in ("Min", "Max")]


@aten("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar", "linalg_norm", ignores=("dtype",))
def _norm(a: Arguments) -> Value:
    order = a.number("ord" if "linalg" in a.call.node.op else "p", 2)
    x, axes, keep = a.term(), _axes(a), _keeps(a)
    if a.call.node.op == "aten.linalg_norm" and len(axes) > 1:
        raise UnsupportedOp("it is the norm of a matrix")
    return _length(x, float(order), axes, keep=keep).value


def _length(x: Term, order: float, axes: list[int], *, keep: bool) -> Term:
    """The norm of an order over axes."""
    if order == 2:
        return x.square().sum(*axes, keep=keep).sqrt()
    if order == 1:
        return x.abs().sum(*axes, keep=keep)
    if order in (float("inf"), float("-inf")):
        return x.abs().reduced("Max" if order > 0 else "Min", *axes, keep=keep)
    if order == 0:
        return (~x.equal(0.0)).cast(x.dtype).sum(*axes, keep=keep)
    return x.abs().apply("Pow", order).sum(*axes, keep=keep).apply("Pow", 1 / order)


@aten("linalg_norm.ord_str", "linalg_matrix_norm.str_ord", ignores=("dtype",))
def _frobenius(a: Arguments) -> Value:
    """The square root of the sum of all squares of a matrix."""
    if (order := a.text("ord", "fro")) != "fro":
        raise UnsupportedOp(f"its order is '{order[:40]}'")
    is_matrix = a.call.node.op == "aten.linalg_matrix_norm.str_ord"
    axes = [a.counted(n, a.rank) for n in a.ints("dim", (-2, -1) if is_matrix else ())] or _axes(a)
    return _length(a.term(), 2.0, axes, keep=_keeps(a)).value


@aten("renorm")
def _renorm(a: Arguments) -> Value:
    """Slices of an axis whose norm is above a limit, made as much shorter."""
    x, axis, order, most = a.term(), a.axis(), float(a.number("p")), float(a.number("maxnorm"))
    others = [n for n in range(len(x.shape)) if n != axis]
    length = _length(x, order, others, keep=True)
    # The least that it is divided by, as PyTorch has it.
    return (x * where(length > most, length.of(most) / (length + 1e-7), length.of(1))).value


@aten("logsumexp")
def _logsumexp(a: Arguments) -> Value:
    return a.onnx("ReduceLogSumExp", a.cast(a.x, a.dtype), a.integers(_axes(a)), keepdims=int(_keeps(a)))


@aten("cumsum", ignores=("dtype",))
def _cumsum(a: Arguments) -> Value:
    return a.emit("Cumsum", a.cast(a.x, a.dtype), a.call.constant(a.axis()))


@aten("cumprod", ignores=("dtype",))
def _cumprod(a: Arguments) -> Value:
    return a.emit("Cumprod", a.cast(a.x, a.dtype), a.call.constant(a.axis()))


@aten("logcumsumexp")
def _logcumsumexp(a: Arguments) -> Value:
    return a.emit("CumulativeLogsumexp", a.x, a.call.constant(a.axis()))


# --- orders -------------------------------------------------------------------------------------------------


@aten("topk", ignores=("sorted",))
def _topk(a: Arguments) -> list[Value]:
    count, axis = a.integer("k"), a.axis(default=-1)
    largest = int(a.flag("largest", True))
    return a.onnx_results("TopK", a.x, a.integers([count]), count=2, axis=axis, largest=largest, sorted=1)


def _sorted(a: Arguments) -> list[Value]:
    x, axis = a.term(), a.axis(default=-1)
    # TensorFlow orders numbers only: 0 and 1, then, for false and true.
    x = x.cast(INT32) if x.dtype is BOOL else x
    count = x.static_size(axis, "the size of what it sorts")
    # Stable by itself: of equal elements TopK has the lower place first.
    largest = int(a.flag("descending"))
    return a.onnx_results("TopK", x.value, a.integers([count]), count=2, axis=axis, largest=largest, sorted=1)


@aten("argsort", "argsort.stable", ignores=("stable",))
def _argsort(a: Arguments) -> Value:
    return _sorted(a)[1]


aten("sort", "sort.stable", ignores=("stable",))(_sorted)
