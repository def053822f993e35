"""Dense layers, embeddings, and layers that do nothing when a model infers."""

from __future__ import annotations

from thinflow.ir.graph import Value
from thinflow.ir.types import dtype
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig
from thinflow.keras.registry import Inside, Result, Slot, layer


@layer(
    *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianNoise"),
    *("GaussianDropout", "AlphaDropout", "ActivityRegularization", "Identity"),
    ignores=("rate", "noise_shape", "stddev", "l1", "l2", "data_format"),
    masks="pass",
)
def nothing(c: Call) -> Result:
    """What works while training alone."""
    return c.unchanged()


LORA = ("lora_rank", "lora_alpha")
"""Options of kernels that were tuned by small factors: a .keras file has the sum, an .h5 file more arrays."""


@layer("Dense", weights="kernel bias?use_bias", masks="pass", real=True, ignores=("input_dim", *LORA))
def dense(c: Call) -> Result:
    """activation(x @ kernel + bias).   x [..., m], kernel [m, n]."""
    units = c.integer("units")
    return c.activated(c.biased(c.matmul(c[0], c.weight("kernel", (c.shape(c[0])[-1], units)))))


@layer("Activation", masks="pass")
def activation(c: Call) -> Result:
    y = c.activated(c[0])
    return c.unchanged() if y is c[0] else y


@layer(
    "Embedding", weights="embeddings", masks="own", ignores=("input_length", "input_dim", "dropout", *LORA)
)
def embedding(c: Call) -> Result:
    """Rows of a table by their numbers.   x [...], embeddings [m, n] -> y [..., n]."""
    table = c.array("embeddings", (None, c.integer("output_dim")))
    rows = table.shape[0]
    # Keras 1 counts one row more where 0 masks.
    if rows != c.integer("input_dim"):
        raise c.refuse(f"its table has {rows} rows, and the config says {c.integer('input_dim')}")
    places = c[0] if c.type_of(c[0]).is_integer else c.cast(c[0], dtype("int32"))
    if c.flag("mask_zero"):
        c.mask_out = c.emit("NotEqual", c[0], 0)
    return gathered(c, c.const(table, "embeddings"), places)


def _reversible_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    tied = config.options.get("tie_weights", True)
    return [Slot("embeddings"), *([] if tied else [Slot("reverse_embeddings")])]


@layer(
    "ReversibleEmbedding",
    weights=_reversible_slots,
    masks="own",
    ignores=("input_length", "input_dim", "mask_zero", *LORA),
)
def reversible_embedding(c: Call) -> Result:
    """An embedding, and called with reverse=True the product with its table: x [..., n] -> y [..., m]."""
    c.read |= {"tie_weights", "reverse_dtype", "logit_soft_cap"}
    if not c.argument("reverse", 1, False):
        return embedding(c)
    if c.get("reverse_dtype") not in (None, "float32"):
        raise c.refuse(f"its product is of the type {str(c.get('reverse_dtype'))[:40]}")
    width = c.integer("output_dim")
    if c.flag("tie_weights", True):
        table = c.array("embeddings", (c.integer("input_dim"), width)).T
    else:
        table = c.array("reverse_embeddings", (width, c.integer("input_dim")))
    y = c.matmul(c[0], c.const(table, "kernel"))
    if c.get("logit_soft_cap") is None:
        return y
    cap = c.number("logit_soft_cap")
    return c.emit("Mul", c.emit("Tanh", c.emit("RealDiv", y, cap)), cap)


def gathered(c: Call, table: Value, places: Value, axis: int = 0) -> Value:
    return c.emit(
        "GatherV2",
        table,
        places,
        c.const(axis, "axis"),
        T=None,
        Tparams=c.type_of(table),
        Tindices=c.type_of(places),
        Taxis=dtype("int32"),
    )


@layer("Masking", masks="own")
def masking(c: Call) -> Result:
    """Steps whose numbers are all one value become zeros, and later layers skip them."""
    kept = c.reduce("Any", c.emit("NotEqual", c[0], c.number("mask_value", 0.0)), [-1], True)
    c.mask_out = c.squeeze(kept, -1)
    return c.emit("Mul", c[0], c.cast(kept, c.type_of(c[0])))


@layer("EinsumDense", weights="kernel bias?bias_axes", real=True, ignores=LORA)
def einsum_dense(c: Call) -> Result:
    """activation(einsum(equation, x, kernel) + bias)."""
    equation = c.text("equation")
    c.read.add("output_shape")
    kernel = c.weight("kernel")
    y = c.emit("Einsum", c[0], kernel, equation=einsum_equation(c, equation), N=2)
    if c.get("bias_axes"):
        y = c.emit("AddV2", y, c.weight("bias"))
    return c.activated(y)


def einsum_equation(c: Call, equation: str) -> str:
    """The equation with letters for the dots, which stand for the axes that the input has more."""
    if "..." not in equation:
        return equation
    first = equation.replace(" ", "").split(",")[0]
    count = c.rank(c[0]) - len(first.replace("...", ""))
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    return equation.replace("...", "".join(free[: max(count, 0)]))


@layer(
    "Highway",
    weights="kernel carry_kernel bias?use_bias carry_bias?use_bias",
    ignores=("transform_bias", "input_dim", "units"),
)
def highway(c: Call) -> Result:
    """Keras 1: t * activation(x W + b) + (1 - t) * x, with t = sigmoid(x V + d)."""
    x = c[0]
    gate = c.matmul(x, c.weight("carry_kernel"))
    value = c.matmul(x, c.weight("kernel"))
    if c.flag("use_bias", True):
        gate = c.emit("BiasAdd", gate, c.weight("carry_bias"))
        value = c.emit("BiasAdd", value, c.weight("bias"))
    gate = c.emit("Sigmoid", gate)
    kept = c.emit("Mul", c.emit("Sub", c.const(1.0, like=x), gate), x)
    return c.emit("AddV2", c.emit("Mul", c.activated(value), gate), kept)


@layer("MaxoutDense", weights="kernel bias?use_bias", ignores=("input_dim",))
def maxout_dense(c: Call) -> Result:
    """Keras 1: the largest of several dense layers.   kernel [features, m, n], bias [features, n]."""
    kernel = c.array("kernel", (c.integer("nb_feature"), None, c.integer("units")))
    features, size, units = kernel.shape
    together = c.const(kernel.transpose(1, 0, 2).reshape(size, features * units), "kernel")
    y = c.matmul(c[0], together)
    if c.flag("use_bias", True):
        y = c.emit("BiasAdd", y, c.const(c.array("bias", (features, units)).reshape(-1), "bias"))
    return c.reduce("Max", c.reshape(y, (None, features, units)), [1])
