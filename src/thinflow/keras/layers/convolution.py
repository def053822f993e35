"""Convolutions. Channels are last inside; layers with channels first are wrapped in transposes."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Value
from thinflow.ir.types import dtype
from thinflow.keras.call import Call
from thinflow.keras.layers.core import LORA
from thinflow.keras.registry import Result, layer
from thinflow.typing import Array


def kernel_array(c: Call, name: str, dims: int) -> Array:
    """A kernel [..., inputs, outputs], however old the file.

    Raises:
        FormatError: it is of another shape than the config says.
    """
    sizes = c.ints("kernel_size", dims)
    array = c.array(name)
    if c.generation == 1:
        array = _of_keras_1(c, array, dims)
    if c.builder.has_flipped_kernels:
        array = array[(slice(None, None, -1),) * dims]
    if array.ndim != dims + 2 or array.shape[:dims] != sizes:
        c.array(name, (*sizes, None, None))  # says what is wrong
    return array


def _of_keras_1(c: Call, array: Array, dims: int) -> Array:
    if dims == 1 and array.ndim == 4:
        array = array[:, 0]  # [length, 1, inputs, outputs]
    # Kernels of Theano's layout are [outputs, inputs, ...].
    if dims > 1 and c.get("data_format", "channels_last") == "channels_first":
        array = array.transpose(*range(2, dims + 2), 1, 0)
    return array


def convolved(
    c: Call,
    x: Value,
    kernel: Array | Value,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    name: str = "",
) -> Value:
    """A convolution over one, two or three axes; the kernel is [..., inputs, outputs]."""
    shape = c.shape(kernel) if isinstance(kernel, Value) else kernel.shape
    dims = len(shape) - 2
    inputs, groups_of = c.size(x, -1, "the number of its input's channels"), shape[-2]
    if not groups_of or inputs % groups_of:
        raise c.refuse(f"its kernel is for {groups_of} channels, and its input has {inputs}")
    if padding == "CAUSAL":
        x = _led(c, x, shape[0], dilations[0])
        padding = "VALID"
    if dims == 1:
        x, kernel = c.expand(x, 1), _widened(c, kernel)
        strides, dilations = (1, *strides), (1, *dilations)
    op, layout = f"Conv{max(dims, 2)}D", "NDHWC" if dims == 3 else "NHWC"
    y = c.emit(
        op,
        x,
        kernel if isinstance(kernel, Value) else c.const(kernel, "kernel"),
        name=name or op,
        strides=(1, *strides, 1),
        padding=padding,
        dilations=(1, *dilations, 1),
        data_format=layout,
    )
    return c.squeeze(y, 1) if dims == 1 else y


def _led(c: Call, x: Value, size: int | None, dilation: int) -> Value:
    """With zeros before the first step, so that no step sees one behind it."""
    if size is None:
        raise c.refuse("the size of its kernel is open")
    return c.pad(x, [[0, 0], [dilation * (size - 1), 0], [0, 0]])


def _widened(c: Call, kernel: Array | Value) -> Array | Value:
    return c.expand(kernel, 0) if isinstance(kernel, Value) else kernel[None]


def _paddings(c: Call, dims: int) -> str:
    return c.choice("padding", "valid", "same", *(("causal",) if dims == 1 else ())).upper()


def _convolution(c: Call, dims: int) -> Value:
    kernel = kernel_array(c, "kernel", dims)
    groups, filters = c.integer("groups", 1), c.integer("filters")
    if kernel.shape[-1] != filters or kernel.shape[-2] * groups != c.size(c.to_last(c[0]), -1):
        c.array("kernel", (*kernel.shape[:-2], c.size(c.to_last(c[0]), -1) // max(groups, 1), filters))
    strides, dilations = c.ints("strides", dims, 1), c.ints("dilation_rate", dims, 1)
    y = convolved(c, c.to_last(c[0]), kernel, strides, _paddings(c, dims), dilations)
    return c.from_last(c.activated(c.biased(y)))


@layer("Conv1D", weights="kernel bias?use_bias", ignores=("input_dim", *LORA))
def conv1d(c: Call) -> Result:
    return _convolution(c, 1)


@layer("Conv2D", weights="kernel bias?use_bias", ignores=LORA)
def conv2d(c: Call) -> Result:
    return _convolution(c, 2)


@layer("Conv3D", weights="kernel bias?use_bias", ignores=LORA)
def conv3d(c: Call) -> Result:
    return _convolution(c, 3)


# --- depthwise ----------------------------------------------------------------------------------------------


def _depthwise(c: Call, x: Value, name: str, dims: int) -> Value:
    """A convolution of each channel by kernels of its own."""
    c.read.add("groups")  # Keras 2 wrote it, and did not heed it
    kernel = kernel_array(c, name, dims)
    channels, multiplier = c.size(x, -1), c.integer("depth_multiplier", 1)
    if kernel.shape[-2:] != (channels, multiplier):
        c.array(name, (*kernel.shape[:-2], channels, multiplier))
    strides, dilations = c.ints("strides", dims, 1), c.ints("dilation_rate", dims, 1)
    padding = _paddings(c, dims)
    if padding == "CAUSAL":
        x, padding = _led(c, x, kernel.shape[0], dilations[0]), "VALID"
    return depthwise_convolved(c, x, kernel, strides, padding, dilations, name)


def depthwise_convolved(
    c: Call,
    x: Value,
    kernel: Array | Value,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    name: str = "kernel",
) -> Value:
    """A convolution of each channel; the kernel is [..., channels, times], over one axis or two."""
    dims = len(strides)
    if dims == 1:
        # TensorFlow's op takes equal strides only; the axis of size 1 does not mind.
        x, kernel = c.expand(x, 1), _widened(c, kernel)
        strides, dilations = (*strides, *strides), (1, *dilations)
    y = c.emit(
        "DepthwiseConv2dNative",
        x,
        kernel if isinstance(kernel, Value) else c.const(kernel, name),
        name="depthwise",
        strides=(1, *strides, 1),
        padding=padding,
        dilations=(1, *dilations, 1),
        data_format="NHWC",
    )
    return c.squeeze(y, 1) if dims == 1 else y


@layer("DepthwiseConv2D", weights="kernel bias?use_bias", ignores=("filters",))
def depthwise_conv2d(c: Call) -> Result:
    return c.from_last(c.activated(c.biased(_depthwise(c, c.to_last(c[0]), "kernel", 2))))


@layer("DepthwiseConv1D", weights="kernel bias?use_bias", ignores=("filters",))
def depthwise_conv1d(c: Call) -> Result:
    return c.from_last(c.activated(c.biased(_depthwise(c, c.to_last(c[0]), "kernel", 1))))


def _separable(c: Call, dims: int) -> Value:
    y = _depthwise(c, c.to_last(c[0]), "depthwise_kernel", dims)
    c.read.add("filters")
    pointwise = c.array("pointwise_kernel")
    if c.generation == 1:
        pointwise = _of_keras_1(c, pointwise, dims)
    if pointwise.shape != (*(1,) * dims, c.size(y, -1), c.integer("filters")):
        c.array("pointwise_kernel", (*(1,) * dims, c.size(y, -1), c.integer("filters")))
    y = convolved(c, y, pointwise, (1,) * dims, "VALID", (1,) * dims, "separable_conv")
    return c.from_last(c.activated(c.biased(y)))


_SEPARABLE = "depthwise_kernel pointwise_kernel bias?use_bias"


@layer("SeparableConv2D", weights=_SEPARABLE)
def separable_conv2d(c: Call) -> Result:
    return _separable(c, 2)


@layer("SeparableConv1D", weights=_SEPARABLE)
def separable_conv1d(c: Call) -> Result:
    return _separable(c, 1)


# --- transposed ---------------------------------------------------------------------------------------------


def _transposed(c: Call, dims: int) -> Value:
    """The gradient of a convolution as a layer.   kernel [..., outputs, inputs]."""
    x, filters = c.to_last(c[0]), c.integer("filters")
    kernel = kernel_array(c, "kernel", dims)
    # Keras 1 has the axes of inputs and outputs as in other convolutions.
    kernel = kernel.swapaxes(-1, -2) if c.generation == 1 else kernel
    if kernel.shape[-2:] != (filters, c.size(x, -1)):
        c.array("kernel", (*kernel.shape[:-2], filters, c.size(x, -1)))
    if c.integer("groups", 1) != 1:
        raise c.refuse("it has groups")
    strides, dilations = c.ints("strides", dims, 1), c.ints("dilation_rate", dims, 1)
    padding = c.choice("padding", "valid", "same")
    extra = (None,) * dims if c.get("output_padding") is None else c.ints("output_padding", dims)
    y = transposed(c, x, kernel, strides, padding, dilations, extra)
    return c.from_last(c.activated(c.biased(y)))


def transposed(
    c: Call,
    x: Value,
    kernel: Array | Value,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
    extra: Sequence[int | None],
) -> Value:
    """The gradient of a convolution over one, two or three axes.   kernel [..., outputs, inputs]

    Args:
        extra: output_padding; None for what Keras chooses.
    """
    shape = c.shape(kernel) if isinstance(kernel, Value) else kernel.shape
    dims = len(shape) - 2
    *sizes, filters = [n for n in shape[:-1] if n is not None]
    if len(sizes) != dims:
        raise c.refuse("the size of its kernel is open")
    lengths = [
        transposed_length(c, x, 1 + n, sizes[n], strides[n], dilations[n], padding, extra[n])
        for n in range(dims)
    ]
    if dims == 1:
        x, kernel, lengths = c.expand(x, 1), _widened(c, kernel), [1, *lengths]
        strides, dilations = (1, *strides), (1, *dilations)
    y = c.emit(
        "Conv2DBackpropInput" if dims < 3 else "Conv3DBackpropInputV2",
        c.sizes_vector([c.dim(x, 0), *lengths, filters]),
        kernel if isinstance(kernel, Value) else c.const(kernel, "kernel"),
        x,
        name="conv_transpose",
        T=c.type_of(x),
        strides=(1, *strides, 1),
        padding=padding.upper(),
        dilations=(1, *dilations, 1),
        data_format="NHWC" if dims < 3 else "NDHWC",
        **({"Tshape": dtype("int32")} if dims == 3 else {}),
    )
    return c.squeeze(y, 1) if dims == 1 else y


def transposed_length(
    c: Call, x: Value, axis: int, size: int, stride: int, dilation: int, padding: str, extra: int | None
) -> Value | int:
    """The size of an axis behind a transposed convolution; a scalar where the input's is open."""
    size = (size - 1) * dilation + 1
    here = c.dim(x, axis)
    if padding == "same" and extra is None:
        return c.dim_of("Mul", here, stride)
    rest = (
        size % 2 + (extra or 0)
        if padding == "same"
        else size + (max(stride - size, 0) if extra is None else extra)
    )
    return c.dim_of("AddV2", c.dim_of("Mul", here, stride), rest - stride)


@layer("Conv1DTranspose", weights="kernel bias?use_bias")
def conv1d_transpose(c: Call) -> Result:
    return _transposed(c, 1)


@layer("Conv2DTranspose", weights="kernel bias?use_bias")
def conv2d_transpose(c: Call) -> Result:
    y = _transposed(c, 2)
    # Keras 1 lets the user choose among the sizes that give the input's.
    wanted = c.get("output_shape")
    if isinstance(wanted, list) and wanted[1:] != list(c.shape(y)[1:]):
        raise c.refuse(f"its output has the shape {wanted}, where later versions of Keras have {c.shape(y)}")
    return y


@layer("Conv3DTranspose", weights="kernel bias?use_bias")
def conv3d_transpose(c: Call) -> Result:
    return _transposed(c, 3)
