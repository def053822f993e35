"""Formulas of few steps: functions of one or two numbers, and of rows."""

from __future__ import annotations

import math

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, where
from thinflow.ir.types import FLOAT, INT32, INT64, DType


@decompose("SquaredDifference")
def squared_difference(x: Term, y: Term) -> Term:
    return (x - y).square()


@decompose("Square")
def square(x: Term) -> Term:
    return x.square()


@decompose("Reciprocal", "Inv")
def reciprocal(x: Term) -> Term:
    refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
    return 1.0 / x


@decompose("ApproximateEqual")
def approximate_equal(x: Term, y: Term, *, tolerance: float = 1e-5) -> Term:
    return (x - y).abs() < tolerance


@decompose("L2Loss")
def l2_loss(x: Term) -> Term:
    """Half the sum of squares."""
    refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
    return x.apply("Square").sum(*range(len(x.shape))) * 0.5


@decompose("TruncateDiv")
def truncate_div(x: Term, y: Term) -> Term:
    """The quotient cut towards 0: one more than the floor where that is below 0 and a rest remains."""
    refuse_unless(not x.dtype.is_floating, f"it has no form for {x.dtype}")
    floor = x.apply("FloorDiv", y)
    is_cut = ~(floor * y).equal(x) & (floor < 0)
    return floor + is_cut.cast(x.dtype)


@decompose("ArgMax")
def arg_max(x: Term, axis: Term, *, output_type: DType = INT64) -> Term:
    """The first of the largest: of integers of 64 bits, which a runtime may sort but not compare so."""
    refuse_unless(x.dtype is INT64 and len(x.shape) > 0, f"it has no form for {x.dtype}")
    refuse_unless(axis.ints("its axis")[0] in (-1, len(x.shape) - 1), "its axis is not the last one")
    count = x.body.constant(1, INT32)
    _, places = x.body.add("TopKV2", [x.value, count.value], ports=2, T=x.dtype, sorted=True)
    return places.body.add("Squeeze", [places.value], T=INT32, squeeze_dims=(-1,))[0].cast(output_type)


# --- 0 where an operand is 0, whatever the other is ---------------------------------------------------------


@decompose("DivNoNan")
def div_no_nan(x: Term, y: Term) -> Term:
    return where(y.equal(0.0), 0.0, x / y)


@decompose("MulNoNan")
def mul_no_nan(x: Term, y: Term) -> Term:
    return where(y.equal(0.0), 0.0, x * y)


@decompose("Xdivy")
def xdivy(x: Term, y: Term) -> Term:
    return where(x.equal(0.0), 0.0, x / y)


@decompose("Xlogy")
def xlogy(x: Term, y: Term) -> Term:
    return where(x.equal(0.0), 0.0, x * y.log())


@decompose("Xlog1py")
def xlog1py(x: Term, y: Term) -> Term:
    refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
    return where(x.equal(0.0), 0.0, x * y.apply("Log1p"))


# --- exponentials and logarithms ----------------------------------------------------------------------------


@decompose("Expm1")
def expm1(x: Term) -> Term:
    """tanh(x / 2) (e^x + 1), which keeps the digits near 0 that a difference would lose."""
    return (x * 0.5).apply("Tanh") * (x.apply("Exp") + 1.0)


@decompose("Log1p")
def log1p(x: Term) -> Term:
    """log(1 + x), near 0 2 x / (2 + x)."""
    # At 0.01 both are off by 1e-5: the next term of the series differs by x^2 / 12 of x, and XNNPACK's
    # logarithms near 1 are off by up to 1.2e-7, beside what 1 + x has lost of x.
    is_near = x.abs() < 0.01
    return where(is_near, x / (x * 0.5 + 1.0), (x + 1.0).log())


@decompose("Erfc")
def erfc(x: Term) -> Term:
    """1 - erf(x), with the digits that leaves."""
    return 1.0 - x.apply("Erf")


@decompose("Softplus")
def softplus(x: Term) -> Term:
    """relu(x) + log(1 + exp(-|x|)), which overflows nowhere; far below 0 exp(x)."""
    power = (-x.abs()).apply("Exp")
    # At 5e-4 both forms are off by 2.5e-4 of the result: y for log(1 + y) by y / 2, and the logarithm by the
    # last digit of 1 + y, of which nothing is left below -17. More terms would be more steps in each Mish.
    return x.apply("Relu") + where(power < 5e-4, power, (power + 1.0).log())


@decompose("Softsign")
def softsign(x: Term) -> Term:
    return x / (x.abs() + 1.0)


@decompose("Selu")
def selu(x: Term) -> Term:
    """scale * relu(x) + scale * alpha * elu(min(x, 0)), with the constants that keep the variance at 1."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return x.apply("Relu") * scale + x.minimum(0.0).apply("Elu") * (scale * alpha)


# --- trigonometry -------------------------------------------------------------------------------------------


@decompose("Tan")
def tan(x: Term) -> Term:
    return x.apply("Sin") / x.apply("Cos")


@decompose("Cosh")
def cosh(x: Term) -> Term:
    """(e^x + e^-x) / 2, as y + 1 / (4 y) with y = e^|x| / 2, which overflows where the result does."""
    # The square of e^(|x| / 2) / sqrt 2. To have the half in the exponent, as |x| - log 2, would lose 1e-6 of
    # results: rounding there is absolute, up to 4e-6 at 80; halves of |x| are exact.
    y = ((x.abs() * 0.5).apply("Exp") * math.sqrt(0.5)).square()
    return y + 0.25 / y


@decompose("Sinh")
def sinh(x: Term) -> Term:
    """cosh x tanh x: no digits are lost near 0."""
    return x.apply("Tanh") * cosh(x)


@decompose("Atan")
def atan(x: Term) -> Term:
    return x.apply("Atan2", x.ones(), _of_one_shape=True)


@decompose("Asin", "Acos")
def asin(x: Term) -> Term:
    """The angle of a point on the unit circle, given one coordinate; (1 - x)(1 + x) keeps digits near 1."""
    other = ((1.0 - x) * (x + 1.0)).sqrt()
    up, across = (x, other) if x.body.op == "Asin" else (other, x)
    return up.apply("Atan2", across, _of_one_shape=True)


@decompose("Asinh")
def asinh(x: Term) -> Term:
    """sign(x) log(|x| + sqrt(x^2 + 1)), near 0 x - x^3 / 6."""
    size = x.abs()
    # Beyond the limit, whose square is well within the type, the root is |x| itself.
    square = size.minimum(200.0 if x.dtype.itemsize == 2 else 1e18).square()
    root = (square + 1.0).sqrt().maximum(size)
    near = x * (1.0 - square * (1 / 6))
    # At 0.06 both are off by 1e-6: the next term is 3/40 x^5, and a logarithm of 1.06 has lost 1e-7 / 0.06.
    return where(size < 0.06, near, x.apply("Sign") * (size + root).log())


@decompose("Acosh")
def acosh(x: Term) -> Term:
    """log(x + sqrt(x - 1) sqrt(x + 1)), which keeps digits near 1."""
    return (x + (x - 1.0).sqrt() * (x + 1.0).sqrt()).log()


@decompose("Atanh")
def atanh(x: Term) -> Term:
    """(log(1 + x) - log(1 - x)) / 2, near 0 x + x^3 / 3."""
    square = x.square()
    # At 0.06 both are off by 3e-6: the next term is x^5 / 5, and logarithms have lost 1e-7 / 0.06.
    far = ((x + 1.0).log() - (1.0 - x).log()) * 0.5
    return where(square < 0.06**2, x * (square * (1 / 3) + 1.0), far)


# --- tests --------------------------------------------------------------------------------------------------


@decompose("IsNan")
def is_nan(x: Term) -> Term:
    return x.apply("NotEqual", x)


@decompose("IsInf")
def is_inf(x: Term) -> Term:
    refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
    return x.abs().equal(math.inf)


@decompose("IsFinite")
def is_finite(x: Term) -> Term:
    refuse_unless(x.dtype.is_floating, f"it has no form for {x.dtype}")
    return x.abs() < math.inf


@decompose("Invert")
def invert(x: Term) -> Term:
    """All bits flipped."""
    if x.dtype in (INT32, INT64):
        # Arithmetic of these is known everywhere, that of bits is not.
        return x.of(-1) - x
    # x XOR 11...1, which is -1 in two's complement.
    limits = np.iinfo(x.dtype.numpy())
    return x.apply("BitwiseXor", -1 if limits.min < 0 else limits.max)


# --- vectors and rows ---------------------------------------------------------------------------------------


@decompose("Cross")
def cross(x: Term, y: Term) -> Term:
    """The vector product of vectors of three."""
    refuse_unless(x.shape[-1] == 3, "its vectors are not of three elements")
    # (x1 y2 - x2 y1, x2 y0 - x0 y2, x0 y1 - x1 y0): each axis by the next one and the one after.
    ahead, behind = (x.body.constant(places, INT32) for places in ([1, 2, 0], [2, 0, 1]))
    return x.gather(ahead, -1) * y.gather(behind, -1) - x.gather(behind, -1) * y.gather(ahead, -1)


@decompose("SoftmaxCrossEntropyWithLogits")
def cross_entropy(x: Term, labels: Term) -> tuple[Term, Term]:
    """The loss of each row, and softmax(x) - labels."""
    log = x.apply("LogSoftmax")
    # What has no share adds nothing, however unlikely it is.
    shares = where(labels.equal(0.0), 0.0, labels * log)
    return -shares.sum(-1), x.apply("Softmax") - labels


@decompose("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(x: Term, labels: Term) -> tuple[Term, Term]:
    """Labels are class numbers; one that is none gives NaN."""
    refuse_unless(len(x.shape) == 2, "a matrix of logits is needed")
    classes = x.static_size(1, "the number of classes")
    number = labels.expand_dims(-1)
    is_class = (number >= 0) & (number < classes)
    hit = number.equal(np.arange(classes))
    share = where(hit, x.apply("LogSoftmax"), 0.0)
    # As TensorFlow's kernels on GPUs do; those on CPUs fail.
    loss = where(is_class, -share.sum(1, keep=True), math.nan)
    slope = x.apply("Softmax") - hit.cast(x.dtype)
    return loss.reshape([-1]), where(is_class, slope, math.nan)


@decompose("SparseMatMul")
def sparse_matmul(x: Term, y: Term, *, transpose_a: bool = False, transpose_b: bool = False) -> Term:
    """Matrices that merely happen to hold many zeros."""
    refuse_unless(x.dtype is FLOAT and y.dtype is FLOAT, f"a product of {x.dtype} and {y.dtype} has no form")
    return x.apply("MatMul", y, transpose_a=transpose_a, transpose_b=transpose_b)


@decompose("ConjugateTranspose")
def conjugate_transpose(x: Term, order: Term) -> Term:
    """Real numbers are their own conjugates."""
    return x.body.add("Transpose", [x.value, order.value], T=x.dtype, Tperm=order.dtype)[0]


@decompose("NthElement")
def nth_element(x: Term, n: Term, *, reverse: bool = False) -> Term:
    """The last of as many as it takes, sorted."""
    refuse_unless(n.known is not None, "its n is computed while the model runs")
    assert n.known is not None
    place, size = int(n.known), x.static_size(-1, "the length of its rows")
    refuse_unless(0 <= place < size, f"n is {place}, a row has {size} elements")
    # TopKV2 sorts falling only.
    given = x if reverse else x.descending()
    count = x.body.constant(place + 1, INT32)
    sorted_, _ = x.body.add("TopKV2", [given.value, count.value], ports=2, T=x.dtype, sorted=True)
    found = sorted_.at(-1, place)
    return found if reverse else found.descending()
