"""The wiring of a model: its inputs, and which use of which layer reads which."""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import TensorSpec, dtype
from thinflow.keras import config as configs
from thinflow.keras.config import LayerConfig, ModelConfig, Ref, Use
from thinflow.keras.options import policy_name


class Network:
    """The nodes of a Functional model: which use of which layer reads which."""

    def __init__(self, model: ModelConfig, layers: Mapping[str, LayerConfig]) -> None:
        self._layers, self._where = layers, f"model '{model.name}'"
        self._first = {
            name: self._offset(layer, model) for name, layer in layers.items() if layer.model is not None
        }
        self.inputs = [ref for ref in configs.leaves(model.inputs) if isinstance(ref, Ref)]
        self.outputs = configs.mapped(model.outputs, self._ends)

    def _offset(self, layer: LayerConfig, model: ModelConfig) -> int:
        """The number of the first use of a nested model: some count a use of their own, in themselves."""
        if layer.generation >= 3:
            return 0
        trees = [model.outputs, *(use.args for other in model.layers for use in other.uses)]
        trees += [use.kwargs for other in model.layers for use in other.uses]
        used = [
            r.use
            for tree in trees
            for r in configs.leaves(tree)
            if isinstance(r, Ref) and r.layer == layer.name
        ]
        # Every use that is kept in a config is read by somebody.
        return 1 if used and max(used) >= len(layer.uses) else 0

    def _ends(self, leaf: object) -> object:
        """Keras 3 counts the own node of a Functional model in the list of outputs, and nowhere else."""
        if not isinstance(leaf, Ref):
            return leaf
        layer = self._layers.get(leaf.layer)
        is_counted = layer is not None and layer.generation >= 3 and layer.model is not None
        if is_counted and layer is not None and layer.kind != "Sequential":
            return Ref(leaf.layer, leaf.use - 1, leaf.tensor)
        return leaf

    def key(self, ref: Ref) -> tuple[str, int]:
        """The layer and the use of it that a tensor comes from.

        Raises:
            FormatError: there is none.
        """
        layer = self._layers.get(ref.layer)
        number = ref.use - self._first.get(ref.layer, 0)
        if layer is None or not 0 <= number < max(len(layer.uses), 1):
            raise FormatError(
                f"use {ref.use} of the layer '{ref.layer}' is read, which is not there", self._where
            )
        return ref.layer, number

    def order(self, done: set[tuple[str, int]]) -> list[tuple[str, int]]:
        """The uses that the outputs need, each behind those that it reads.

        Raises:
            FormatError: they read each other in a circle.
        """
        order: list[tuple[str, int]] = []
        seen, finished = set(done), set(done)
        ends = [self.key(leaf) for leaf in configs.leaves(self.outputs) if isinstance(leaf, Ref)]
        pending = [(key, False) for key in reversed(ends)]
        while pending:
            key, is_ready = pending.pop()
            if is_ready:
                finished.add(key)
                order.append(key)
            elif key not in seen:
                seen.add(key)
                pending.append((key, True))
                pending += [(read, False) for read in reversed(self._reads(key)) if read not in finished]
            elif key not in finished:
                raise FormatError(f"the layer '{key[0]}' reads what it gives", self._where)
        return order

    def _reads(self, key: tuple[str, int]) -> list[tuple[str, int]]:
        layer = self._layers[key[0]]
        if not layer.uses:
            raise FormatError(f"the layer '{key[0]}' is read, and nothing goes into it", self._where)
        use = layer.uses[key[1]]
        refs = [
            leaf for tree in (use.args, use.kwargs) for leaf in configs.leaves(tree) if isinstance(leaf, Ref)
        ]
        return list(dict.fromkeys(self.key(ref) for ref in refs))

    def value(self, leaf: object, done: Mapping[tuple[str, int], list[Value]]) -> object:
        """The tensor that a ref stands for; anything else stays."""
        if not isinstance(leaf, Ref):
            return leaf
        values = done[self.key(leaf)]
        if not 0 <= leaf.tensor < len(values):
            raise FormatError(
                f"output {leaf.tensor} of the layer '{leaf.layer}' is read, of {len(values)}", self._where
            )
        return values[leaf.tensor]

    def resolved(self, use: Use, done: Mapping[tuple[str, int], list[Value]]) -> Use:
        """A use with tensors in place of refs."""
        args = configs.mapped(use.args, lambda leaf: self.value(leaf, done))
        kwargs = configs.mapped(use.kwargs, lambda leaf: self.value(leaf, done))
        assert isinstance(args, tuple)
        assert isinstance(kwargs, dict)
        return Use(args, kwargs)


def input_specs(model: ModelConfig) -> list[tuple[str, TensorSpec]]:
    """Names, types and shapes of a model's inputs.

    Raises:
        FormatError: the config does not say their shapes.
    """
    if not model.is_sequential:
        layers = model.by_name()
        refs = [ref for ref in configs.leaves(model.inputs) if isinstance(ref, Ref)]
        unknown = [ref.layer for ref in refs if ref.layer not in layers]
        if unknown or not refs:
            raise FormatError(
                f"its input '{unknown[0] if unknown else ''}' is no layer of it", f"model '{model.name}'"
            )
        return [(ref.layer, _input_spec(layers[ref.layer])) for ref in refs]
    first = model.layers[0] if model.layers else None
    if first is None:
        raise FormatError("it has no layers", f"model '{model.name}'")
    if first.model is not None:
        return input_specs(first.model)
    return [(first.name if first.kind == "InputLayer" else f"{first.name}_input", _input_spec(first))]


def _input_spec(layer: LayerConfig) -> TensorSpec:
    options = layer.options
    shape = next(
        (options[k] for k in ("batch_shape", "batch_input_shape") if options.get(k) is not None), None
    )
    if shape is None:
        shape = layer.build.get("input_shape")
    is_shape = isinstance(shape, list) and all(n is None or (isinstance(n, int) and n >= 0) for n in shape)
    if not is_shape or not isinstance(shape, list):
        raise FormatError(
            "the shape of the model's input is not in its config",
            layer.where,
            "call the model once on an input, and save it again",
        )
    for kind in ("sparse", "ragged"):
        if options.get(kind):
            raise UnsupportedOp(f"its input is {kind}", layer.where, "feed dense tensors")
    name = options.get("input_dtype") or (policy_name(layer) if layer.kind == "InputLayer" else "float32")
    mixed = isinstance(name, str) and name.startswith("mixed_")
    return TensorSpec(dtype("float32" if mixed else str(name)), tuple(shape))
