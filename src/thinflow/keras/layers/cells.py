"""Cells of recurrent layers: from a step and the states to the next states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig, leaves, parse_layer
from thinflow.keras.layers.convolution import convolved
from thinflow.keras.registry import Inside, Result, Slot, Slots, layer, named_slots
from thinflow.keras.weights import snake_case
from thinflow.typing import Array


@dataclass(frozen=True)
class Cell:
    """A cell of one layer.

    Attributes:
        sizes: of each state, without the batch.
        step: from the step [batch, ...] and the states: the output, and the next states.
        output: the place of the state that is the output, too.
    """

    sizes: Sequence[tuple[int, ...]]
    step: Callable[[Value, Sequence[Value]], tuple[Value, list[Value]]]
    output: int = 0


Made = Callable[[Call, str], Cell]
"""The cell of a layer; its variables are below a path: "cell/"."""


@dataclass(frozen=True)
class CellKind:
    """A class of cells.

    Attributes:
        made: the cell of a layer.
        slots: its variables.
    """

    made: Made
    slots: Slots


CELLS: dict[str, CellKind] = {}
_PLAIN = "kernel recurrent_kernel bias?use_bias"
_DROPOUT = ("dropout", "recurrent_dropout", "unit_forget_bias", "implementation", "seed", "reset_after")


def cell(
    kind: str, slots: str | Slots = _PLAIN
) -> Callable[[Callable[[Call, str], Cell]], Callable[[Call, str], Cell]]:
    """Function decorator: what cells of a class compute."""

    def register(made: Callable[[Call, str], Cell]) -> Callable[[Call, str], Cell]:
        known = slots if callable(slots) else named_slots(slots)
        CELLS[kind] = CellKind(made, known)

        def rule(c: Call) -> Result:
            """One step, for layers that have the cell as an option: (x, states) -> [output, states...]."""
            states = [x for x in leaves(c.args[1]) if isinstance(x, Value)]
            y, after = made(c, "").step(c[0], states)
            return [y, *after]

        layer(kind, weights=known, ignores=_DROPOUT)(rule)
        return made

    return register


def cell_of(c: Call, config: LayerConfig, path: str) -> Cell:
    """The cell that is an option of a layer.

    Raises:
        UnsupportedOp: it is of no class that is known.
    """
    if config.kind == "StackedRNNCells":
        return _stacked(c, config, path)
    if config.kind not in CELLS or config.is_custom:
        raise UnsupportedOp(
            f"its cell {config.registered or config.kind} is not Keras's own",
            c.where,
            "LSTMCell, GRUCell, SimpleRNNCell and StackedRNNCells are known",
        )
    sizes = CELLS[config.kind].made(Call(c.builder, config, [], {}, path), "").sizes

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        y, *after = [v for v in leaves(c.apply(config, path, x, list(states))) if isinstance(v, Value)]
        return y, after

    return Cell(sizes, step)


def _stacked(c: Call, config: LayerConfig, path: str) -> Cell:
    """Cells on top of one another: each takes what the one below gives."""
    configs = listed_layers(config, "cells", "cells")
    cells = [cell_of(c, inner, f"{path}/{place}") for place, inner in configs.items()]

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        after: list[Value] = []
        for one in cells:
            x, now = one.step(x, states[len(after) : len(after) + len(one.sizes)])
            after += now
        return x, after

    # The output is that of the highest cell, whose first state stands behind those of the others.
    output = sum(len(one.sizes) for one in cells[:-1])
    if config.options.get("reverse_state_order"):
        raise UnsupportedOp("its states are in the reverse order", c.where)
    return Cell([size for one in cells for size in one.sizes], step, output)


def listed_layers(config: LayerConfig, option: str, place: str) -> dict[str, LayerConfig]:
    """The layers in a list that is an option, by their places in a file."""
    listed = config.options.get(option)
    counts: dict[str, int] = {}
    found: dict[str, LayerConfig] = {}
    for data in listed if isinstance(listed, list) else []:
        inner = parse_layer(data, config.generation, config.where)
        snake = snake_case(inner.kind)
        number = counts.get(snake, 0)
        counts[snake] = number + 1
        found[f"{place}/{snake}_{number}" if number else f"{place}/{snake}"] = inner
    return found


def _stacked_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    return [
        slot
        for place, inner in listed_layers(config, "cells", "cells").items()
        for slot in inside.slots(inner, place)
    ]


@layer("StackedRNNCells", weights=_stacked_slots)
def stacked_cells(c: Call) -> Result:
    raise c.refuse("it is a cell of no layer")


# --- what cells have in common ------------------------------------------------------------------------------


def _product(c: Call, x: Value, h: Value, w: Array, bias: Array | None, name: str = "kernel") -> Value:
    """[x, h] @ w + bias: both products at once, as the targets know recurrent layers."""
    y = c.emit("MatMul", c.concat([x, h], 1), c.const(w, name), transpose_a=False, transpose_b=False)
    return y if bias is None else c.emit("BiasAdd", y, c.const(bias, "bias"), data_format="NHWC")


def _dense(c: Call, x: Value, w: Array, bias: Array | None) -> Value:
    y = c.emit("MatMul", x, c.const(w, "kernel"), transpose_a=False, transpose_b=False)
    return y if bias is None else c.emit("BiasAdd", y, c.const(bias, "bias"), data_format="NHWC")


def _split(c: Call, x: Value, count: int) -> list[Value]:
    node = c.node("Split", c.const(c.rank(x) - 1, "split_dim"), x, T=c.type_of(x), num_split=count)
    return [node.output(port) for port in range(count)]


def _bias(c: Call, path: str, shape: Sequence[int]) -> Array | None:
    return c.array(f"{path}bias", shape) if c.flag("use_bias", True) else None


def _gate(c: Call, x: Value) -> Value:
    """The activation of gates.

    Where a config does not say, it was the hard one in Keras before 2.3. cuDNN has the sigmoid only, and
    configs of its layers have no such option.
    """
    is_hard = c.generation < 3 and not c.layer.kind.startswith("CuDNN")
    return c.builder.activate(c, x, c.get("recurrent_activation", "hard_sigmoid" if is_hard else "sigmoid"))


def _bent(c: Call, x: Value) -> Value:
    return c.builder.activate(c, x, c.get("activation", "tanh"))


# --- the cells ----------------------------------------------------------------------------------------------


def _gated_slots(gates: str) -> Slots:
    """Keras 1 has a kernel, a recurrent kernel and a bias for each gate."""
    plain = named_slots(_PLAIN)

    def slots(config: LayerConfig, inside: Inside) -> list[Slot]:
        if config.generation > 1:
            return plain(config, inside)
        return [Slot(f"{part}_{gate}") for gate in gates for part in "WUb"]

    return slots


def _gated(c: Call, path: str, gates: str, units: int) -> tuple[Array, Array, Array | None]:
    """Kernel, recurrent kernel and bias with the gates side by side, in this order."""
    if c.generation > 1:
        kernel = c.array(f"{path}kernel", (None, len(gates) * units))
        recurrent = c.array(f"{path}recurrent_kernel", (units, len(gates) * units))
        return kernel, recurrent, None
    w, u, b = ([c.array(f"{path}{part}_{gate}") for gate in gates] for part in "WUb")
    return np.concatenate(w, 1), np.concatenate(u, 1), np.concatenate(b)


@cell("SimpleRNNCell")
def simple_cell(c: Call, path: str) -> Cell:
    """h' = f(x W + h U + b)."""
    units = c.integer("units")

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        w = np.concatenate(
            [c.array(f"{path}kernel", (None, units)), c.array(f"{path}recurrent_kernel", (units, units))]
        )
        h = _bent(c, _product(c, x, states[0], w, _bias(c, path, (units,))))
        return h, [h]

    return Cell([(units,)], step)


def _lstm(
    c: Call, w: Array, bias: Array | None, x: Value, states: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """Gates in Keras's order: input, forget, new content, output."""
    i, f, g, o = _split(c, _product(c, x, states[0], w, bias), 4)
    kept = c.emit("Mul", _gate(c, f), states[1])
    state = c.emit("AddV2", kept, c.emit("Mul", _gate(c, i), _bent(c, g)))
    h = c.emit("Mul", _gate(c, o), _bent(c, state))
    return h, [h, state]


# Keras 1 stored the new content's gate second; it is computed third, as in Keras 2.
@cell("LSTMCell", _gated_slots("icfo"))
def lstm_cell(c: Call, path: str) -> Cell:
    units = c.integer("units")

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        kernel, recurrent, bias = _gated(c, path, "ifco", units)
        if bias is None:
            bias = _bias(c, path, (4 * units,))
        return _lstm(c, np.concatenate([kernel, recurrent]), bias, x, states)

    return Cell([(units,), (units,)], step)


def _of_cudnn(array: Array, gates: int, transposed: bool) -> Array:
    """A kernel of cuDNN's order as Keras's own layers have it.

    cuDNN reads each gate's matrix [inputs, units] as [units, inputs].
    """
    parts = np.split(array, gates, 1)
    own = [p.T if transposed else p.T.reshape(p.shape, order="F") for p in parts]
    return np.concatenate(own, 1)


@cell("CuDNNLSTMCell", "kernel recurrent_kernel bias")
def cudnn_lstm_cell(c: Call, path: str) -> Cell:
    """As LSTMCell, with the weights as NVIDIA's library keeps them."""
    units = c.integer("units")

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        kernel = _of_cudnn(c.array(f"{path}kernel", (None, 4 * units)), 4, False)
        recurrent = _of_cudnn(c.array(f"{path}recurrent_kernel", (units, 4 * units)), 4, True)
        # A bias for each of the two products.
        bias = c.array(f"{path}bias", (8 * units,)).reshape(2, -1).sum(0)
        return _lstm(c, np.concatenate([kernel, recurrent]), bias, x, states)

    return Cell([(units,), (units,)], step)


def _gru(
    c: Call, kernel: Array, recurrent: Array, bias: Array | None, x: Value, h: Value
) -> tuple[Value, list[Value]]:
    """Gates in Keras's order: update, reset, new content.

    A bias of two rows has one for each product, and the reset gate stands behind the second product; with a
    bias of one row it stands in front.
    """
    units = recurrent.shape[0]
    first = np.concatenate([kernel, recurrent])[:, : 2 * units]
    is_late = (bias is not None and bias.ndim == 2) or (
        bias is None and c.flag("reset_after", c.generation > 2)
    )
    both = np.zeros((2, 3 * units), kernel.dtype) if bias is None else np.atleast_2d(bias)
    gates = _product(c, x, h, first, both.sum(0)[: 2 * units])
    z, r = (_gate(c, part) for part in _split(c, gates, 2))
    kernel, recurrent = kernel[:, 2 * units :], recurrent[:, 2 * units :]
    if is_late:
        again = _dense(c, h, recurrent, both[1, 2 * units :])
        total = c.emit("AddV2", _dense(c, x, kernel, both[0, 2 * units :]), c.emit("Mul", r, again))
    else:
        own = np.concatenate([kernel, recurrent])
        total = _product(c, x, c.emit("Mul", r, h), own, both[0, 2 * units :])
    new = _bent(c, total)
    kept = c.emit("Mul", z, h)
    after = c.emit("AddV2", kept, c.emit("Mul", c.emit("Sub", c.const(1.0, like=z), z), new))
    return after, [after]


@cell("GRUCell", _gated_slots("zrh"))
def gru_cell(c: Call, path: str) -> Cell:
    units = c.integer("units")

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        kernel, recurrent, bias = _gated(c, path, "zrh", units)
        if bias is None and c.flag("use_bias", True):
            bias = c.array(f"{path}bias")
            # Keras 2 stored one row where the gate stands in front of the product.
            is_late = c.flag("reset_after", c.generation > 2)
            c.array(f"{path}bias", (2, 3 * units) if is_late else (3 * units,))
        return _gru(c, kernel, recurrent, bias, x, states[0])

    return Cell([(units,)], step)


@cell("CuDNNGRUCell", "kernel recurrent_kernel bias")
def cudnn_gru_cell(c: Call, path: str) -> Cell:
    units = c.integer("units")

    def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        kernel = _of_cudnn(c.array(f"{path}kernel", (None, 3 * units)), 3, False)
        recurrent = _of_cudnn(c.array(f"{path}recurrent_kernel", (units, 3 * units)), 3, True)
        # Two rows, which say that the reset gate stands behind the second product, as cuDNN has it.
        bias = c.array(f"{path}bias", (6 * units,)).reshape(2, -1)
        return _gru(c, kernel, recurrent, bias, x, states[0])

    return Cell([(units,)], step)


# --- convolutional cells ------------------------------------------------------------------------------------


def _convolutional(dims: int) -> Made:
    def made(c: Call, path: str) -> Cell:
        """LSTM whose products are convolutions; states [..., filters] with channels last."""
        filters, sizes = c.integer("filters"), c.ints("kernel_size", dims)
        strides, dilations = c.ints("strides", dims, 1), c.ints("dilation_rate", dims, 1)
        padding = c.choice("padding", "valid", "same").upper()
        first = c.is_channels_first
        shape = c.shape(c[0])[2:]
        spatial = [n for n in (shape[1:] if first else shape[:-1])]
        if None in spatial:
            raise c.refuse("the size of its pictures is open")
        inner = [
            _length(n or 0, k, s, d, padding)
            for n, k, s, d in zip(spatial, sizes, strides, dilations, strict=True)
        ]

        def step(x: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
            kernel = c.array(f"{path}kernel", (*sizes, None, 4 * filters))
            recurrent = c.array(f"{path}recurrent_kernel", (*sizes, filters, 4 * filters))
            x = c.transpose(x, (0, *range(2, dims + 2), 1)) if first else x
            read = convolved(c, x, kernel, strides, padding, dilations)
            bias = _bias(c, path, (4 * filters,))
            read = (
                read if bias is None else c.emit("BiasAdd", read, c.const(bias, "bias"), data_format="NHWC")
            )
            total = c.emit(
                "AddV2", read, convolved(c, states[0], recurrent, (1,) * dims, "SAME", (1,) * dims)
            )
            i, f, g, o = _split(c, total, 4)
            kept = c.emit("Mul", _gate(c, f), states[1])
            state = c.emit("AddV2", kept, c.emit("Mul", _gate(c, i), _bent(c, g)))
            h = c.emit("Mul", _gate(c, o), _bent(c, state))
            return h, [h, state]

        size = (*inner, filters)
        return Cell([size, size], step)

    return made


def _length(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    if padding == "SAME":
        return -(-size // stride)
    return (size - dilation * (kernel - 1) - 1) // stride + 1


for _dims in (1, 2, 3):
    cell(f"ConvLSTM{_dims}DCell")(_convolutional(_dims))
