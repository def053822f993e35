"""A model's layers called one after the other, on what the layers before gave."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from thinflow.errors import FormatError, ThinflowError, UnsupportedOp, closest
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Value, paused_gc
from thinflow.ir.types import BOOL
from thinflow.keras import config as configs
from thinflow.keras.activations import activate
from thinflow.keras.call import Call, Kept
from thinflow.keras.config import LayerConfig, ModelConfig, Use
from thinflow.keras.network import Network, input_specs
from thinflow.keras.operations.refused import CALLING, REFUSED
from thinflow.keras.options import compute_type, policy_name
from thinflow.keras.registry import Entry, Registry
from thinflow.keras.weights import Entries, Weights, layer_paths
from thinflow.keras.writer import Writer, legal
from thinflow.ops._failures import in_words
from thinflow.ops.registry import RULE_ERRORS
from thinflow.typing import Array

_TRAINING = re.compile(r"(^|_)(initializer|regularizer|constraint|learning_rate_multiplier|init)$")
_DESCRIBING = frozenset(
    {
        *("name", "trainable", "dtype", "seed", "autocast", "dynamic", "shared_object_id", "input_dtype"),
        *("batch_input_shape", "batch_shape", "input_shape", "input_length", "build_config"),
    }
)
"""Options of every layer that do not bear on what it computes, or are read for every layer."""
_LAMBDA = frozenset(
    {"function", "function_type", "module", "output_shape", "output_shape_type", "output_shape_module"}
)
"""Options of a Lambda layer that a function which is given for it stands for; its arguments are not."""
_LAMBDA_HINT = (
    "give the function yourself: --lambda {name}=FILE.py:FUNCTION, or custom_layers={{'{name}': function}}"
)
_EXPORT_HINT = "export the model as a SavedModel, and give that: model.export('folder')"


class Builder:
    """A graph on its way from a model's config.

    Attributes:
        writer: the graph.
        masks: value -> its mask, which layers behind may heed.
        facts: what the user should know of how the model was read: topic -> text.
    """

    def __init__(self, registry: Registry, entries: Entries, weights: Weights) -> None:
        self.writer = Writer()
        self.masks: dict[Value, Value] = {}
        self.facts: dict[str, str] = {}
        self._registry, self._entries, self._weights = registry, entries, weights
        self._kept: dict[str, Kept] = {}

    # --- weights ------------------------------------------------------------------------------------------

    def weight(self, path: str) -> Array | None:
        return self._weights.get(path)

    def asset(self, name: str) -> bytes | None:
        """A file beside the weights, such as a vocabulary."""
        return self._weights.asset(name)

    @property
    def version(self) -> tuple[int, int]:
        """The first two numbers of that of Keras which wrote the model."""
        return self._weights.version

    @property
    def has_flipped_kernels(self) -> bool:
        """True if kernels of convolutions are stored turned around, as Theano wanted them."""
        return self._weights.is_flipped

    def kept(self, first: Value, name: str) -> Kept:
        """A variable of the layer that is being built; the same one whenever the layer is used again."""
        place = f"{self.writer.scope}{name}"
        if place not in self._kept:
            kind: dict[str, Attr | None] = {"T": None, "dtype": first.spec.dtype}
            handle = self.writer.add(
                "LiteRTVariable", [first], "handle", {**kind, "shared_name": place.encode()}
            )
            read = self.writer.add("ReadVariableOp", [handle.output()], name, kind).output()
            read.spec = first.spec.with_shape(first.spec.shape)
            self._kept[place] = Kept(handle.output(), read)
        return self._kept[place]

    def activate(self, call: Call, x: Value, given: object) -> Value:
        """A value behind the activation that a config names: the caller's of that name, or Keras's."""
        entry = self._entries.custom(given) if isinstance(given, str) else None
        if entry is None:
            return activate(call, x, given)
        inner = Call(self, call.layer, [x], {}, call.path)
        return _values(entry.rule(inner), call.layer)[0]

    # --- models -------------------------------------------------------------------------------------------

    def graph(self, model: LayerConfig) -> Graph:
        """The graph of the outermost model.

        Raises:
            FormatError: the config contradicts itself, or the weights.
            UnsupportedOp: a layer that cannot be said in TensorFlow's ops.
        """
        assert model.model is not None
        inputs = [self.writer.placeholder(name, spec) for name, spec in input_specs(model.model)]
        self.writer.scope = f"{legal(model.name)}/"
        results = self._run(model.model, inputs, "")
        graph = self.writer.graph
        graph.inputs = inputs
        outputs: list[Value] = []
        for value in _values(results, model):
            # An output may be an input, or stand there twice: each gets a name of its own.
            taken = value in outputs or value in inputs
            outputs.append(self.writer.add("Identity", [value], "Identity").output() if taken else value)
        graph.outputs = outputs
        for kept in self._kept.values():
            kind: dict[str, Attr | None] = {"T": None, "dtype": kept.now.spec.dtype}
            self.writer.add("AssignVariableOp", [kept.handle, kept.now], "write", kind)
        graph.facts.update(self.facts)
        return graph

    def _run(self, model: ModelConfig, inputs: Sequence[Value], path: str) -> object:
        """What a model gives for its inputs, in the order of their leaves."""
        return (
            self._sequence(model, inputs, path) if model.is_sequential else self._network(model, inputs, path)
        )

    def _sequence(self, model: ModelConfig, inputs: Sequence[Value], path: str) -> object:
        places = layer_paths(model.layers)
        result: object = list(inputs) if len(inputs) > 1 else inputs[0]
        for layer in model.layers:
            if layer.kind != "InputLayer":
                result = self._placed(layer, Use((result,)), _below(path, places[layer.name]))
        return result

    def _network(self, model: ModelConfig, inputs: Sequence[Value], path: str) -> object:
        layers = model.by_name()
        network = Network(model, layers)
        refs = network.inputs
        if len(refs) != len(inputs):
            raise FormatError(
                f"it has {len(refs)} inputs, and is called with {len(inputs)}", f"model '{model.name}'"
            )
        done: dict[tuple[str, int], list[Value]] = {}
        for ref, value in zip(refs, inputs, strict=True):
            done[ref.layer, 0] = [value]
        places = layer_paths(model.layers)
        for name, number in network.order(set(done)):
            layer = layers[name]
            use = network.resolved(layer.uses[number], done)
            result = self._placed(layer, use, _below(path, places[name]))
            done[name, number] = _values(result, layer)
        return configs.mapped(network.outputs, lambda leaf: network.value(leaf, done))

    # --- layers -------------------------------------------------------------------------------------------

    def _placed(self, layer: LayerConfig, use: Use, path: str) -> object:
        """What a layer of a model gives; its name leads to its first result."""
        result = self.apply(layer, use.args, use.kwargs, path)
        first = next(iter(_values(result, layer)), None)
        if first is not None and layer.name not in self.writer.graph:
            self.writer.graph.aliases.setdefault(layer.name, first.name)
        return result

    def apply(
        self, layer: LayerConfig, args: Sequence[object], kwargs: Mapping[str, object], path: str
    ) -> object:
        """What a layer gives for its arguments.

        Args:
            layer: the layer.
            args, kwargs: what it is called with; values stand for tensors.
            path: place of its weights.
        """
        outer = self.writer.scope
        self.writer.scope = f"{outer}{legal(layer.name)}/"
        try:
            if layer.model is not None:
                return self._run(layer.model, _fitted(layer, args), path)
            return self._called(layer, args, kwargs, path)
        except (ThinflowError, *RULE_ERRORS) as error:
            raise _placed_error(error, layer) from error
        finally:
            self.writer.scope = outer

    def _called(
        self, layer: LayerConfig, args: Sequence[object], kwargs: Mapping[str, object], path: str
    ) -> object:
        entry = self._entry(layer)
        if not layer.is_operation and layer.kind != "TFOpLambda":
            cast = self._cast_to(layer, entry.real)
            args = [configs.mapped(arg, cast) for arg in args]
        elif layer.kind in CALLING:
            # The function is called by what was given in its place, which gets the tensors.
            args = [[leaf for leaf in configs.leaves(args) if isinstance(leaf, Value)]]
        call = Call(self, layer, args, kwargs, path)
        result = entry.rule(call)
        _refuse_unread(call, entry)
        passed = (
            next((m for m in call.masks if m is not None), None) if entry.masks == "pass" else call.mask_out
        )
        if passed is not None:
            for value in _values(result, layer):
                self.masks.setdefault(value, passed)
        return result

    def _cast_to(self, layer: LayerConfig, real: bool) -> Callable[[object], object]:
        """Layers take floats in the type that they compute in.

        Args:
            real: whether to do so with whole numbers, too.
        """
        element = compute_type(layer)
        if policy_name(layer).startswith("mixed_"):
            self.facts["precision"] = f"computed in float32, where Keras mixes types ({policy_name(layer)})"

        def cast(leaf: object) -> object:
            kind = leaf.spec.dtype if isinstance(leaf, Value) else None
            if not isinstance(leaf, Value) or kind is None or kind is element:
                return leaf
            if not kind.is_floating and not (real and (kind.is_integer or kind is BOOL)):
                return leaf
            attrs: dict[str, Attr | None] = {"T": None, "SrcT": kind, "DstT": element}
            found = self.writer.add("Cast", [leaf], "Cast", attrs).output()
            if leaf in self.masks:
                self.masks[found] = self.masks[leaf]
            return found

        return cast

    def _entry(self, layer: LayerConfig) -> Entry:
        """What is known of a layer.

        Raises:
            UnsupportedOp: nothing is.
        """
        if layer.is_operation or layer.kind in ("TFOpLambda", "SlicingOpLambda"):
            name = str(layer.options.get("function")) if layer.kind.endswith("OpLambda") else layer.kind
            known = self._registry.operations
            entry = known.get(name) or known.get(name.removeprefix("compat.v1."))
            what = f"the function {name}"
            if name in CALLING:
                entry = self._entries.custom(layer.name)
            # Where the file does not say the module, some layers look like functions: they lack options.
            if entry is None and not layer.module:
                entry = self._entries.of(layer)
        else:
            entry, name, what = self._entries.of(layer), layer.kind, f"the layer {layer.kind}"
        if entry is not None:
            return entry
        if layer.kind == "Lambda":
            raise UnsupportedOp(
                "it computes a Python function that is stored as bytecode, which is never run",
                layer.where,
                _LAMBDA_HINT.format(name=layer.name),
            )
        if layer.is_custom:
            raise UnsupportedOp(
                f"its class {layer.registered or layer.kind} is not Keras's own: what it computes only its "
                "Python code says",
                layer.where,
                _LAMBDA_HINT.format(name=layer.kind),
            )
        if what.startswith("the function") and name in CALLING:
            raise UnsupportedOp(
                f"it calls a Python function ({name}), which is never run",
                layer.where,
                _LAMBDA_HINT.format(name=layer.name),
            )
        if what.startswith("the function") and name in REFUSED:
            why, hint = REFUSED[name]
            raise UnsupportedOp(f"{what} is not read: {why}", layer.where, hint)
        if what.startswith("the function"):
            hint = closest(name, self._registry.operations) or _EXPORT_HINT
        else:  # old files do not tell custom classes from Keras's own
            hint = _LAMBDA_HINT.format(name=layer.kind)
        raise UnsupportedOp(f"{what} is not known", layer.where, hint)


# --- arguments ----------------------------------------------------------------------------------------------


def _fitted(layer: LayerConfig, args: Sequence[object]) -> list[Value]:
    """What a model is called with, in the order of its inputs."""
    assert layer.model is not None
    given = args[0] if len(args) == 1 else list(args)
    wanted = layer.model.inputs
    if isinstance(given, Mapping) and not isinstance(wanted, Mapping):
        # By the names of the inputs.
        names = [name for name, _ in input_specs(layer.model)]
        given = [given[name] for name in names if name in given]
    return _values(given, layer)


def _values(tree: object, layer: LayerConfig) -> list[Value]:
    found = list(configs.leaves(tree))
    values = [item for item in found if isinstance(item, Value)]
    if len(values) != len(found):
        raise FormatError("what goes into it or comes out of it is no tensor", layer.where)
    return values


def _below(path: str, place: str) -> str:
    return f"{path}/{place}" if path else place


# --- refusals -----------------------------------------------------------------------------------------------


def _refuse_unread(call: Call, entry: Entry) -> None:
    """Refuse a layer that is told more than its function has looked at.

    Raises:
        UnsupportedOp: names the option or argument.
    """
    known = call.read | entry.ignores | _DESCRIBING
    # The name of a TensorFlow function chose the rule.
    known |= {"function"} if call.layer.kind.endswith("OpLambda") else set()
    known |= _LAMBDA if call.layer.kind == "Lambda" else set()
    for option, value in call.layer.options.items():
        if option not in known and not _TRAINING.search(option) and not _is_off(value):
            raise UnsupportedOp(f"its option {option} ({str(value)[:60]}) is not known", call.where)
    for name, value in call.kwargs.items():
        is_mask = name == "mask" and entry.masks == "pass"
        if name not in call.read | entry.ignores and not is_mask and not _is_off(value):
            raise UnsupportedOp(f"it is called with {name}={str(value)[:60]}, which is not known", call.where)


def _is_off(value: object) -> bool:
    return value is None or value is False or value in ("", [], {})


def _placed_error(error: Exception, layer: LayerConfig) -> ThinflowError:
    """The error with the layer that it is about."""
    if not isinstance(error, ThinflowError):
        return FormatError(
            f"its config cannot be followed ({in_words(error)})",
            layer.where,
            "the file is damaged, or of a version that is not known; save the model again",
        )
    placed = error if layer.where in error.where else error.at(layer.where)
    if isinstance(placed, UnsupportedOp) and not placed.hint:
        return type(placed)(placed.problem, placed.where, _EXPORT_HINT)
    return placed


def build(model: LayerConfig, registry: Registry, entries: Entries, weights: Weights) -> Graph:
    """The graph of a model."""
    with paused_gc():
        return Builder(registry, entries, weights).graph(model)
