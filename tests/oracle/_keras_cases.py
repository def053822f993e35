"""Layers of Keras with random configurations, for both Keras 3 and the Keras 2 that lives on as tf_keras."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Draw:
    """What a case draws from.

    Attributes:
        keras: the package: `keras` or `tf_keras`.
        generation: 3 or 2.
        random: seeded.
    """

    keras: Any
    generation: int
    random: random.Random

    @property
    def layers(self) -> Any:
        return self.keras.layers

    def of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def size(self, low: int = 1, high: int = 7) -> int:
        return self.random.randint(low, high)

    def sizes(self, count: int, low: int = 5, high: int = 9) -> tuple[int, ...]:
        return tuple(self.size(low, high) for _ in range(count))

    def activation(self) -> str | None:
        return self.of(None, "relu", "tanh", "sigmoid", "softplus", "elu")


@dataclass
class Case:
    """A layer to call.

    Attributes:
        layer: the layer.
        shapes: of its inputs, without the batch.
        kwargs: arguments of the call.
        integers: inputs are numbers below this; 0 for floats.
    """

    layer: Any
    shapes: Sequence[tuple[int, ...]]
    kwargs: dict[str, Any] = field(default_factory=dict)
    integers: int = 0


Make = Callable[[Draw], Case]
CASES: dict[str, tuple[Make, tuple[int, ...]]] = {}
"""Name -> what makes a case, and the generations of Keras that have the layer."""


def case(name: str, generations: tuple[int, ...] = (2, 3)) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        assert name not in CASES, name
        CASES[name] = make, generations
        return make

    return register


# --- core ---------------------------------------------------------------------------------------------------


@case("Dense")
def dense(d: Draw) -> Case:
    layer = d.layers.Dense(d.size(), activation=d.activation(), use_bias=d.flag())
    return Case(layer, [d.sizes(d.of(1, 2, 3), 2, 6)])


@case("EinsumDense")
def einsum_dense(d: Draw) -> Case:
    rows = (
        ("ab,bc->ac", 5, "c", (3,)),
        ("...x,xy->...y", 4, "y", (3,)),
        ("abc,cde->abde", (3, 2, 5), "de", (3, 4)),
    )
    equation, output, bias, shape = d.of(*rows)
    return Case(d.layers.EinsumDense(equation, output_shape=output, bias_axes=bias), [shape])


@case("Embedding")
def embedding(d: Draw) -> Case:
    count = d.size(3, 9)
    return Case(d.layers.Embedding(count, d.size(), mask_zero=d.flag()), [(d.size(),)], integers=count)


@case("Masking")
def masking(d: Draw) -> Case:
    return Case(d.layers.Masking(d.of(0.0, 1.5)), [d.sizes(2)])


for _name in ("Dropout", "GaussianNoise", "GaussianDropout", "SpatialDropout1D"):
    case(_name)(lambda d, name=_name: Case(getattr(d.layers, name)(0.4), [d.sizes(2)]))
for _name in ("SpatialDropout2D", "SpatialDropout3D"):
    case(_name)(
        lambda d, name=_name: Case(getattr(d.layers, name)(0.4), [d.sizes(3 if name.endswith("2D") else 4)])
    )
case("AlphaDropout")(lambda d: Case(d.layers.AlphaDropout(0.3), [d.sizes(2)]))
case("ActivityRegularization")(lambda d: Case(d.layers.ActivityRegularization(0.1), [d.sizes(2)]))
case("Identity")(lambda d: Case(d.layers.Identity(), [d.sizes(2)]))

_OLD = (
    "elu",
    "exponential",
    "gelu",
    "hard_sigmoid",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
)
_OLDER = ("softsign", "swish", "tanh", "mish")
_NEW = ("celu", "glu", "hard_shrink", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid")
_NEWER = (
    "log_softmax",
    "relu6",
    "silu",
    "soft_shrink",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
)
for _word in (*_OLD, *_OLDER, *_NEW, *_NEWER, "tanh_shrink", "threshold"):
    case(f"Activation-{_word}", (2, 3) if _word in _OLD + _OLDER else (3,))(
        lambda d, word=_word: Case(
            d.layers.Activation(word if word != "threshold" else "relu"), [(d.size(), 2 * d.size())]
        )
    )


@case("ReLU")
def relu(d: Draw) -> Case:
    options = {
        "max_value": d.of(None, 6.0, 2.5),
        "negative_slope": d.of(0.0, 0.2),
        "threshold": d.of(0.0, 0.3),
    }
    return Case(d.layers.ReLU(**options), [d.sizes(2)])


@case("LeakyReLU")
def leaky_relu(d: Draw) -> Case:
    slope = d.of(0.1, 0.3)
    return Case(d.layers.LeakyReLU(slope), [d.sizes(2)])


@case("PReLU")
def prelu(d: Draw) -> Case:
    return Case(d.layers.PReLU(shared_axes=d.of(None, [1], [1, 2])), [d.sizes(3)])


case("ELU")(lambda d: Case(d.layers.ELU(d.of(1.0, 0.4)), [d.sizes(2)]))
case("ThresholdedReLU", (2,))(lambda d: Case(d.layers.ThresholdedReLU(0.4), [d.sizes(2)]))
case("Softmax")(lambda d: Case(d.layers.Softmax(d.of(-1, 1, 2, [1, 2])), [d.sizes(3)]))

# --- convolutions -------------------------------------------------------------------------------------------


def _conv(d: Draw, dims: int, *, causal: bool = False, **more: Any) -> dict[str, Any]:
    """Options of a convolution; strides and dilations exclude each other."""
    strides, dilation = d.of((1, 1), (2, 1), (1, 2), (3, 1))
    padding = d.of("valid", "same", *(("causal",) if causal else ()))
    options = {
        "kernel_size": d.sizes(dims, 1, 3),
        "strides": strides,
        "dilation_rate": dilation,
        "padding": padding,
        "use_bias": d.flag(),
        "activation": d.activation(),
        **more,
    }
    return options


def _shape(d: Draw, dims: int, channels: int, low: int = 7, high: int = 10) -> tuple[int, ...]:
    return (*d.sizes(dims, low, high), channels)


for _dims in (1, 2, 3):

    def _make(d: Draw, dims: int = _dims) -> Case:
        groups = d.of(1, 1, 2) if dims < 3 else 1
        options = _conv(d, dims, causal=dims == 1, groups=groups, filters=groups * d.size(1, 4))
        return Case(getattr(d.layers, f"Conv{dims}D")(**options), [_shape(d, dims, groups * d.size(1, 3))])

    case(f"Conv{_dims}D")(_make)

    def _make_transposed(d: Draw, dims: int = _dims) -> Case:
        options = _conv(d, dims, filters=d.size(1, 4))
        options["dilation_rate"] = 1
        return Case(
            getattr(d.layers, f"Conv{dims}DTranspose")(**options), [_shape(d, dims, d.size(1, 3), 3, 5)]
        )

    case(f"Conv{_dims}DTranspose")(_make_transposed)

for _dims in (1, 2):

    def _make_depthwise(d: Draw, dims: int = _dims) -> Case:
        options = _conv(d, dims, depth_multiplier=d.of(1, 2))
        return Case(getattr(d.layers, f"DepthwiseConv{dims}D")(**options), [_shape(d, dims, d.size(1, 4))])

    case(f"DepthwiseConv{_dims}D")(_make_depthwise)

    def _make_separable(d: Draw, dims: int = _dims) -> Case:
        causal = dims == 1 and d.generation == 2
        options = _conv(d, dims, depth_multiplier=d.of(1, 2), filters=d.size(1, 5), causal=causal)
        return Case(getattr(d.layers, f"SeparableConv{dims}D")(**options), [_shape(d, dims, d.size(1, 4))])

    case(f"SeparableConv{_dims}D")(_make_separable)


@case("Conv2DTranspose-output_padding")
def conv2d_transpose_padded(d: Draw) -> Case:
    padding = d.of("valid", "same")
    layer = d.layers.Conv2DTranspose(3, 3, strides=2, padding=padding, output_padding=1)
    return Case(layer, [_shape(d, 2, 2, 3, 5)])


for _dims in (1, 2):

    def _make_local(d: Draw, dims: int = _dims) -> Case:
        options = _conv(d, dims, filters=d.size(1, 3))
        del options["dilation_rate"]
        options.update(padding="valid", implementation=d.of(1, 2, 3))
        return Case(
            getattr(d.layers, f"LocallyConnected{dims}D")(**options), [_shape(d, dims, d.size(1, 3), 5, 7)]
        )

    case(f"LocallyConnected{_dims}D", (2,))(_make_local)

# --- pooling ------------------------------------------------------------------------------------------------

for _dims in (1, 2, 3):
    for _kind in ("Max", "Average"):

        def _make_pool(d: Draw, dims: int = _dims, kind: str = _kind) -> Case:
            layer = getattr(d.layers, f"{kind}Pooling{dims}D")
            options = {"pool_size": d.of(2, 3), "strides": d.of(None, 1, 2), "padding": d.of("valid", "same")}
            return Case(layer(**options), [_shape(d, dims, d.size(1, 3))])

        case(f"{_kind}Pooling{_dims}D")(_make_pool)

        def _make_global(d: Draw, dims: int = _dims, kind: str = _kind) -> Case:
            layer = getattr(d.layers, f"Global{kind}Pooling{dims}D")
            options = {"keepdims": d.flag(), "data_format": d.of("channels_last", "channels_first")}
            return Case(layer(**options), [_shape(d, dims, d.size(1, 3))])

        case(f"Global{_kind}Pooling{_dims}D")(_make_global)

        def _make_adaptive(d: Draw, dims: int = _dims, kind: str = _kind) -> Case:
            layer = getattr(d.layers, f"Adaptive{kind}Pooling{dims}D")
            return Case(layer(d.sizes(dims, 1, 4)), [_shape(d, dims, d.size(1, 3), 4, 8)])

        # Keras ends the process with a floating point exception at some sizes of volumes.
        if _dims < 3:
            case(f"Adaptive{_kind}Pooling{_dims}D", (3,))(_make_adaptive)

# --- normalization ------------------------------------------------------------------------------------------


@case("BatchNormalization")
def batch_normalization(d: Draw) -> Case:
    options = {"center": d.flag(), "scale": d.flag(), "epsilon": d.of(1e-3, 1e-5), "axis": d.of(-1, -1, 1)}
    return Case(d.layers.BatchNormalization(**options), [d.sizes(d.of(1, 2, 3, 4), 2, 5)])


@case("LayerNormalization")
def layer_normalization(d: Draw) -> Case:
    rank = d.of(2, 3)
    options = {"center": d.flag(), "scale": d.flag(), "axis": d.of(-1, [1, 2]), "epsilon": d.of(1e-3, 1e-6)}
    return Case(d.layers.LayerNormalization(**options), [d.sizes(rank)])


@case("GroupNormalization")
def group_normalization(d: Draw) -> Case:
    groups = d.of(1, 2, 3, -1)
    channels = abs(groups) * d.size(1, 3)
    options = {"groups": groups, "center": d.flag(), "scale": d.flag()}
    return Case(d.layers.GroupNormalization(**options), [(*d.sizes(d.of(1, 2)), channels)])


case("UnitNormalization")(lambda d: Case(d.layers.UnitNormalization(axis=d.of(-1, 1, [1, 2])), [d.sizes(3)]))
case("RMSNormalization", (3,))(lambda d: Case(d.layers.RMSNormalization(axis=d.of(-1, 1)), [d.sizes(2)]))


@case("SpectralNormalization")
def spectral_normalization(d: Draw) -> Case:
    inner = d.of(d.layers.Dense(d.size(2, 4)), d.layers.Dense(3, use_bias=False))
    return Case(d.layers.SpectralNormalization(inner), [d.sizes(1)])


# --- merging ------------------------------------------------------------------------------------------------

for _name in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):

    def _make_merge(d: Draw, name: str = _name) -> Case:
        shape = d.sizes(2)
        options = {"axis": d.of(-1, 1, 2)} if name == "Concatenate" else {}
        shapes = [shape] * d.size(2, 4)
        if not options and d.flag():
            shapes[1] = (1, shape[1])
        return Case(getattr(d.layers, name)(**options), shapes)

    case(_name)(_make_merge)

case("Subtract")(lambda d: Case(d.layers.Subtract(), [d.sizes(2)] * 2 if d.flag() else [(3, 4), (3, 4)]))


@case("Dot")
def dot(d: Draw) -> Case:
    axes, shapes = d.of(
        (1, [(4,), (4,)]), ((2, 1), [(3, 4), (4, 5)]), (2, [(3, 4), (5, 4)]), ((1, 2), [(4, 3), (2, 4)])
    )
    return Case(d.layers.Dot(axes, normalize=d.flag()), shapes)


# --- reshaping ----------------------------------------------------------------------------------------------

case("Flatten")(
    lambda d: Case(
        d.layers.Flatten(data_format=d.of("channels_last", "channels_first")), [d.sizes(d.of(1, 2, 3), 2, 4)]
    )
)
case("Reshape")(
    lambda d: Case(d.layers.Reshape(d.of((12,), (-1, 4), (2, -1, 3), (3, 4))), [d.of((12,), (4, 3))])
)
case("Permute")(lambda d: Case(d.layers.Permute(d.of((2, 1, 3), (3, 1, 2))), [d.sizes(3)]))
case("RepeatVector")(lambda d: Case(d.layers.RepeatVector(d.size()), [d.sizes(1)]))
for _dims in (1, 2, 3):

    def _pairs(d: Draw, dims: int) -> Any:
        pairs = tuple((d.size(0, 2), d.size(0, 2)) for _ in range(dims))
        return d.of(1, pairs if dims > 1 else pairs[0])

    case(f"ZeroPadding{_dims}D")(
        lambda d, dims=_dims: Case(
            getattr(d.layers, f"ZeroPadding{dims}D")(_pairs(d, dims)), [_shape(d, dims, d.size(1, 3), 3, 5)]
        )
    )
    case(f"Cropping{_dims}D")(
        lambda d, dims=_dims: Case(
            getattr(d.layers, f"Cropping{dims}D")(_pairs(d, dims)), [_shape(d, dims, d.size(1, 3), 5, 7)]
        )
    )
case("UpSampling1D")(lambda d: Case(d.layers.UpSampling1D(d.size(1, 3)), [d.sizes(2)]))
case("UpSampling3D")(lambda d: Case(d.layers.UpSampling3D(d.sizes(3, 1, 2)), [d.sizes(4, 2, 3)]))


@case("UpSampling2D")
def up_sampling_2d(d: Draw) -> Case:
    method = d.of("nearest", "bilinear", *(("bicubic",) if d.generation == 2 else ()))
    return Case(d.layers.UpSampling2D(d.sizes(2, 1, 3), interpolation=method), [d.sizes(3, 3, 5)])
