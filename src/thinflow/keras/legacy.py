"""Layers of Keras 1 by the names that their classes and options have had since Keras 2."""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.errors import UnsupportedOp

_OPTIONS: Mapping[str, str] = {
    "nb_filter": "filters",
    "border_mode": "padding",
    "subsample": "strides",
    "bias": "use_bias",
    "atrous_rate": "dilation_rate",
    "dim_ordering": "data_format",
    "output_dim": "units",
    "inner_activation": "recurrent_activation",
    "p": "rate",
    "sigma": "stddev",
    "dropout_W": "dropout",
    "dropout_U": "recurrent_dropout",
    "filter_length": "kernel_size",
    "subsample_length": "strides",
    "pool_length": "pool_size",
    "stride": "strides",
    "length": "size",
    "inner_init": "recurrent_initializer",
    "forget_bias_init": "bias_initializer",
}
_VALUES: Mapping[str, Mapping[object, object]] = {
    "data_format": {"tf": "channels_last", "th": "channels_first", "default": "channels_last"},
}
_SIDES = ("nb_row", "nb_col")
_SIDES_3D = ("kernel_dim1", "kernel_dim2", "kernel_dim3")


def renamed(kind: str, options: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """A layer's class and options as Keras 2 would have written them.

    Raises:
        UnsupportedOp: a way of Keras 1 that later ones do not have.
    """
    new: dict[str, object] = {}
    for key, value in options.items():
        name = "output_dim" if kind == "Embedding" and key == "output_dim" else _OPTIONS.get(key, key)
        new[name] = _VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value
    for sides in (_SIDES, _SIDES_3D):
        if sides[0] in new:
            new["kernel_size"] = [new.pop(side) for side in sides if side in new]
    if kind == "Merge":
        return _merge(new)
    if kind == "BatchNormalization" and (mode := new.pop("mode", 0)) != 0:
        raise UnsupportedOp(
            f"it normalizes by its input's own mean (mode {mode})", f"layer '{new.get('name')}' ({kind})"
        )
    if new.get("padding") == "full":
        raise UnsupportedOp("border_mode 'full' is not known", f"layer '{new.get('name')}' ({kind})")
    return _class(kind), new


def _class(kind: str) -> str:
    """A layer's class as it has been called since Keras 2: Conv2D for Convolution2D."""
    plain = {"TimeDistributedDense": "Dense"}.get(kind, kind.removeprefix("Atrous"))
    if plain.startswith("Deconvolution"):
        return plain.replace("Deconvolution", "Conv") + "Transpose"
    return plain.replace("Convolution", "Conv")


def _merging(mode: str) -> str | None:
    """The layer that a mode of Merge has become."""
    layers = {"sum": "Add", "mul": "Multiply", "concat": "Concatenate", "ave": "Average", "max": "Maximum"}
    return "Dot" if mode == "dot" else layers.get(mode)


def _merge(options: dict[str, object]) -> tuple[str, dict[str, object]]:
    mode = options.pop("mode", "sum")
    where = f"layer '{options.get('name')}' (Merge)"
    layer = _merging(mode) if isinstance(mode, str) else None
    if layer is None or options.get("mode_type", "raw") != "raw":
        raise UnsupportedOp(
            "it merges in a way that later versions of Keras do not have, or by Python's bytecode",
            where,
            "replace the layer in Keras, and save the model again",
        )
    kept: dict[str, object] = {key: options[key] for key in ("name", "trainable") if key in options}
    if layer == "Concatenate":
        kept["axis"] = options.get("concat_axis", -1)
    if layer == "Dot":
        kept["axes"] = options.get("dot_axes", -1)
    return layer, kept
