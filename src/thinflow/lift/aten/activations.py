"""ATen's activations; those that ONNX has as well are said by its rules."""

from __future__ import annotations

from thinflow.decompose.terms import where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.aten.arguments import Arguments, aten


def _same(name: str, op: str) -> None:
    """An activation without arguments, which is one of ONNX's."""
    aten(name)(lambda a: a.onnx(op, a.x))


_same("relu", "Relu")
_same("selu", "Selu")
_same("hardswish", "HardSwish")
_same("mish", "Mish")


@aten("sigmoid", "special_expit")
def _sigmoid(a: Arguments) -> Value:
    return a.emit("Sigmoid", a.cast(a.x, a.dtype))


@aten("silu")
def _silu(a: Arguments) -> Value:
    return a.onnx("Swish", a.x)


@aten("relu6")
def _relu6(a: Arguments) -> Value:
    return a.emit("Relu6", a.x)


@aten("hardtanh")
def _hardtanh(a: Arguments) -> Value:
    low, high = a.number("min_val", -1.0), a.number("max_val", 1.0)
    return a.onnx("Clip", a.x, a.like(low), a.like(high))


@aten("clamp", "clip")
def _clamp(a: Arguments) -> Value:
    ends = [a.like(a.number(n)) if a.has(n) else None for n in ("min", "max")]
    x, whole = a.x, a.dtype
    if x.dtype is not whole:
        x = a.cast(x, whole)
        ends = [a.like(a.number(n), x) if a.has(n) else None for n in ("min", "max")]
    return a.onnx("Clip", x, *ends)


@aten("clamp.Tensor", "clip.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp_by_tensors(a: Arguments) -> Value:
    x = a.cast(a.x, a.dtype)
    for op, name in (("Maximum", "min"), ("Minimum", "max")):
        end = a.maybe(name)
        x = x if end is None else a.emit(op, x, a.cast(end, a.dtype))
    return x


@aten("clamp_min")
def _clamp_min(a: Arguments) -> Value:
    x = a.cast(a.x, a.dtype)
    return a.onnx("Clip", x, a.like(a.number("min"), x), None)


@aten("clamp_max")
def _clamp_max(a: Arguments) -> Value:
    x = a.cast(a.x, a.dtype)
    return a.onnx("Clip", x, None, a.like(a.number("max"), x))


@aten("hardsigmoid")
def _hardsigmoid(a: Arguments) -> Value:
    # relu6(x + 3) / 6; ONNX's own default for the slope is 0.2.
    return a.onnx("HardSigmoid", a.x, alpha=1 / 6, beta=0.5)


@aten("leaky_relu")
def _leaky_relu(a: Arguments) -> Value:
    return a.onnx("LeakyRelu", a.x, alpha=float(a.number("negative_slope", 0.01)))


@aten("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional", ignores=("noise", "generator"))
def _rrelu(a: Arguments) -> list[Value]:
    """A slope that training draws from a range; its middle else."""
    if a.flag("training"):
        raise UnsupportedOp("it draws random numbers", hint="export model.eval()")
    slope = (a.number("lower", 1 / 8) + a.number("upper", 1 / 3)) / 2
    return [a.onnx("LeakyRelu", a.x, alpha=slope)]


@aten("prelu", "_prelu_kernel")
def _prelu(a: Arguments) -> Value:
    """One slope, or one for each channel of axis 1; in core ATen shaped to be broadcast."""
    slope, x = a.tensor("weight"), a.body.term(a.x)
    shape = slope.spec.shape
    if shape is not None and len(shape) == 1 and shape != (1,) and len(x.shape) > 1:
        sides = [1] * len(x.shape)
        sides[1] = -1
        slope = a.body.term(slope).reshape(sides).value
    return a.onnx("PRelu", a.x, slope)


@aten("elu")
def _elu(a: Arguments) -> Value:
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
    alpha, scale, inner = a.number("alpha", 1.0), a.number("scale", 1.0), a.number("input_scale", 1.0)
    if inner != 1:
        raise UnsupportedOp(f"it scales its input by {inner:g}")
    if scale == 1:
        return a.onnx("Elu", a.x, alpha=float(alpha))
    # ONNX's Selu is an Elu times gamma.
    return a.onnx("Selu", a.x, alpha=float(alpha), gamma=float(scale))


@aten("celu")
def _celu(a: Arguments) -> Value:
    return a.onnx("Celu", a.x, alpha=float(a.number("alpha", 1.0)))


@aten("gelu")
def _gelu(a: Arguments) -> Value:
    way = a.text("approximate", "none")
    if way not in ("none", "tanh"):
        raise UnsupportedOp(f"it approximates by '{way[:40]}'")
    return a.onnx("Gelu", a.x, approximate=way.encode())


@aten("softplus")
def _softplus(a: Arguments) -> Value:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""
    beta, threshold, x = float(a.number("beta", 1.0)), a.number("threshold", 20.0), a.term()
    y = (x * beta if beta != 1 else x).apply("Softplus")
    y = y / beta if beta != 1 else y
    # Above 20 both agree to the last bit of float32.
    return y.value if threshold >= 20 else where(x * beta > threshold, x, y).value


@aten("softsign")
def _softsign(a: Arguments) -> Value:
    return a.emit("Softsign", a.x)


@aten("log_sigmoid", "log_sigmoid_forward")
def _log_sigmoid(a: Arguments) -> list[Value]:
    if a.is_read(1):
        raise UnsupportedOp("its buffer is read, which training needs")
    # The logarithm of a sigmoid would be that of 0 far below zero.
    return [(-(-a.term()).apply("Softplus")).value]


@aten("tanhshrink")
def _tanhshrink(a: Arguments) -> Value:
    x = a.term()
    return (x - x.apply("Tanh")).value


@aten("hardshrink")
def _hardshrink(a: Arguments) -> Value:
    x = a.term()
    return where(x.abs() > a.number("lambd", 0.5), x, 0.0).value


@aten("softshrink")
def _softshrink(a: Arguments) -> Value:
    x, width = a.term(), a.number("lambd", 0.5)
    return (x - x.clip(-width, width)).value


@aten("threshold")
def _threshold(a: Arguments) -> Value:
    x = a.term()
    return where(x > a.number("threshold"), x, float(a.number("value"))).value


@aten("glu")
def _glu(a: Arguments) -> Value:
    halves = a.term().split(2, a.axis(default=-1))
    return (halves[0] * halves[1].apply("Sigmoid")).value


def _softmax(a: Arguments, op: str) -> Value:
    if a.flag("half_to_float"):
        raise UnsupportedOp("it computes in another type than its operand has")
    kind = a.kind()
    x = a.x if kind is None else a.cast(a.x, kind)
    if x.dtype is not None and not x.dtype.is_floating:
        x = a.cast(x, a.dtype)
    if a.rank == 0:
        raise UnsupportedOp("its operand has no axis")
    return a.onnx(op, x, axis=a.axis())


aten("softmax.int", "_softmax")(lambda a: _softmax(a, "Softmax"))
aten("log_softmax.int", "_log_softmax")(lambda a: _softmax(a, "LogSoftmax"))
aten("_safe_softmax")(lambda a: _safe_softmax(a))


def _safe_softmax(a: Arguments) -> Value:
    """Zeros where a whole row is -inf."""
    x, axis = a.term(), a.axis()
    y = a.body.term(_softmax(a, "Softmax"))
    return where(x.reduced("Max", axis, keep=True).equal(float("-inf")), y.of(0.0), y).value
