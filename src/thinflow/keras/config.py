"""Configs of models and layers in one form, whatever generation of Keras wrote them.

Keras 1 and 2 say where a tensor comes from by `["layer", use, output]` in lists, Keras 3 by dicts of class
`__keras_tensor__`. Here both are `Ref`s in plain Python structures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from thinflow.errors import FormatError
from thinflow.keras.legacy import renamed

MAX_DEPTH = 40
"""Models in models, and structures in structures: what Keras writes nests a few levels deep."""
_MAX_LAYERS = 100_000
_MODELS = frozenset({"Sequential", "Functional", "Model"})
_OPERATIONS = re.compile(r"keras\.src\.ops\.|keras\.ops\b|keras\.src\.backend\.")

_OWN_MODULES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras", "builtins")


@dataclass(frozen=True)
class Ref:
    """One tensor of a model: output `tensor` of use number `use` of a layer."""

    layer: str
    use: int
    tensor: int


@dataclass(frozen=True)
class Literal:
    """A tensor that the config holds by value."""

    value: object
    dtype: str


@dataclass(frozen=True)
class Use:
    """One call of a layer: its arguments, in which tensors are `Ref`s."""

    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class LayerConfig:
    """A layer as its config has it.

    Attributes:
        kind: its class, by the name of Keras 2 and 3: "Conv2D".
        name: its own name in the model.
        options: what its class is told.
        module: where the class is from; "" if the file does not say.
        registered: the name under which a custom class was registered, such as "Acme>Swish"; "" for none.
        uses: its calls in the model around it, in their order.
        trainable: False if it was frozen for training, which moves its weights in .h5 files.
        model: the layers inside, if it is a model.
        generation: of Keras, 1, 2 or 3: meanings of some options changed.
        build: what Keras noted when the layer was built, such as the shape of its input.
    """

    kind: str
    name: str
    options: Mapping[str, object]
    module: str = ""
    registered: str = ""
    uses: tuple[Use, ...] = ()
    trainable: bool = True
    model: ModelConfig | None = None
    generation: int = 2
    build: Mapping[str, object] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"layer '{self.name}' ({self.kind})"

    @property
    def is_operation(self) -> bool:
        """True for a function of `keras.ops`, which Keras 3 lists among the layers."""
        if self.generation < 3 or self.model is not None or self.kind == "InputLayer":
            return False
        # .h5 files of Keras 3 do not say the module; layers have this option, and functions do not.
        is_bare = not self.module and not {"trainable", "layers"} & set(self.options)
        return bool(_OPERATIONS.match(self.module)) or is_bare

    @property
    def is_custom(self) -> bool:
        """True for a class that is not Keras's own, as far as the file says."""
        if ">" in self.registered or ">" in self.kind:
            return True
        return bool(self.module) and not self.module.startswith(_OWN_MODULES)

    def inner(self, option: str) -> LayerConfig:
        """A layer that is an option of this one, as in a wrapper.

        Raises:
            FormatError: there is none.
        """
        return parse_layer(self.options.get(option), self.generation, self.where)


@dataclass(frozen=True)
class ModelConfig:
    """The layers of a Sequential or Functional model.

    Attributes:
        is_sequential: each layer takes what the one before gives; there are no refs.
        inputs, outputs: structures of refs.
    """

    name: str
    is_sequential: bool
    layers: tuple[LayerConfig, ...]
    inputs: object = None
    outputs: object = None

    def by_name(self) -> dict[str, LayerConfig]:
        """The layers by their names.

        Raises:
            FormatError: two have the same.
        """
        found: dict[str, LayerConfig] = {}
        for layer in self.layers:
            if layer.name in found:
                raise FormatError(f"two layers are named '{layer.name}'", f"model '{self.name}'")
            found[layer.name] = layer
        return found


def parse_model(data: object, generation: int) -> LayerConfig:
    """The model in a config, as a layer that has a model inside.

    Raises:
        FormatError: the config is no model's, or malformed.
    """
    layer = parse_layer(data, generation, "the model's config")
    if layer.model is None:
        raise FormatError(
            f"its model is of the class {layer.kind}, of which only the Python code knows what it computes",
            hint="export it with its framework: model.export('dir'), and give that folder",
        )
    return layer


def parse_layer(data: object, generation: int, where: str, depth: int = 0) -> LayerConfig:
    """A layer from its dict of class and config.

    Raises:
        FormatError: it has no class, or its config is malformed.
    """
    if depth > MAX_DEPTH:
        raise FormatError("its models are nested too deeply", where)
    if not isinstance(data, Mapping) or not isinstance(data.get("class_name"), str):
        raise FormatError("the config of a layer has no class", where, "the file is damaged; export it again")
    options = data.get("config")
    if isinstance(options, list) and data["class_name"] == "Sequential":
        options = {"name": "sequential", "layers": options}  # Keras before 2.2.3
    if not isinstance(options, Mapping):
        raise FormatError(f"the config of a {data['class_name']} is missing", where, "export the model again")
    name = options.get("name") or data.get("name")
    kind, options = renamed(data["class_name"], options) if generation < 2 else (data["class_name"], options)
    module, registered = data.get("module"), data.get("registered_name")
    build = data.get("build_config")
    layer = LayerConfig(
        kind=kind,
        name=str(data.get("name") or name or kind.lower()),
        options=options,
        module=module if isinstance(module, str) else "",
        registered=registered if isinstance(registered, str) else "",
        uses=tuple(_use(node, depth) for node in _list(data.get("inbound_nodes"))),
        trainable=options.get("trainable") is not False,
        generation=generation,
        build=build if isinstance(build, Mapping) else {},
    )
    if kind not in _MODELS or not isinstance(options.get("layers"), list):
        return layer
    return replace(layer, model=_model(layer, options, depth))


def _model(layer: LayerConfig, options: Mapping[str, object], depth: int) -> ModelConfig:
    items = _list(options.get("layers"))
    if len(items) > _MAX_LAYERS:
        raise FormatError(f"{len(items)} layers are more than a model can have", layer.where)
    layers = tuple(parse_layer(item, layer.generation, layer.where, depth + 1) for item in items)
    if layer.kind == "Sequential":
        return ModelConfig(layer.name, True, layers)
    inputs, outputs = (structure(options.get(key)) for key in ("input_layers", "output_layers"))
    return ModelConfig(layer.name, False, layers, inputs, outputs)


def _list(data: object) -> list[object]:
    return data if isinstance(data, list) else []


# --- structures ---------------------------------------------------------------------------------------------


def is_ref(data: object, sizes: tuple[int, ...] = (3,)) -> bool:
    """True for `["layer", use, output]`, with keyword arguments behind where the sizes allow it."""
    return (
        isinstance(data, list)
        and len(data) in sizes
        and isinstance(data[0], str)
        and all(isinstance(n, int) and not isinstance(n, bool) for n in data[1:3])
    )


def structure(data: object, depth: int = 0) -> object:
    """Lists and dicts of a config with `Ref`s, slices and arrays in place of what stands for them.

    Raises:
        FormatError: nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise FormatError("its structures are nested too deeply")
    if is_ref(data):
        assert isinstance(data, list)
        return Ref(data[0], data[1], data[2])
    if isinstance(data, list):
        return [structure(item, depth + 1) for item in data]
    if not isinstance(data, Mapping):
        return data
    inner = data.get("config")
    marked = _MARKED.get(data["class_name"]) if isinstance(data.get("class_name"), str) else None
    if marked is not None:
        return marked(inner if isinstance(inner, Mapping) else {}, depth)
    # Keras 2 writes a slice as a dict of its three numbers.
    if data.keys() == {"start", "stop", "step"}:
        return _slice(data, depth)
    return {str(key): structure(item, depth + 1) for key, item in data.items()}


def _tensor(config: Mapping[str, object], depth: int) -> object:
    history = config.get("keras_history")
    if not is_ref(history):
        raise FormatError("a tensor in its config does not say which layer makes it")
    return structure(history)


def _literal(config: Mapping[str, object], depth: int) -> object:
    return Literal(config.get("value"), str(config.get("dtype") or "float32"))


def _slice(config: Mapping[str, object], depth: int) -> object:
    return slice(*(structure(config.get(key), depth + 1) for key in ("start", "stop", "step")))


_MARKED: Mapping[str, Callable[[Mapping[str, object], int], object]] = {
    "__keras_tensor__": _tensor,
    "__tensor__": _literal,
    "__numpy__": _literal,
    "__slice__": _slice,
    "__ellipsis__": lambda config, depth: ...,
    "__bytes__": lambda config, depth: str(config.get("value", "")),
}


def _use(node: object, depth: int) -> Use:
    """One entry of `inbound_nodes`."""
    if isinstance(node, Mapping) and "args" in node:
        args, kwargs = structure(node.get("args")), structure(node.get("kwargs"))
        return Use(
            tuple(args) if isinstance(args, list) else (args,), kwargs if isinstance(kwargs, dict) else {}
        )
    kwargs_found: dict[str, object] = {}
    first = _flat_node(node, kwargs_found, 0)
    # A call with one tensor is stored as a list of one.
    if isinstance(first, list) and len(first) == 1:
        first = first[0]
    return Use((first,), kwargs_found)


def _flat_node(node: object, kwargs: dict[str, object], depth: int) -> object:
    """The first argument of a call in Keras 1 and 2; keyword arguments stand behind each of its tensors."""
    if depth > MAX_DEPTH:
        raise FormatError("its structures are nested too deeply")
    if isinstance(node, list) and len(node) in (3, 4) and node[0] == "_CONSTANT_VALUE":
        _add_kwargs(node, kwargs)
        return Literal(node[2], "")
    if is_ref(node, (3, 4)):
        assert isinstance(node, list)
        _add_kwargs(node, kwargs)
        return Ref(node[0], node[1], node[2])
    if isinstance(node, list):
        return [_flat_node(item, kwargs, depth + 1) for item in node]
    if isinstance(node, Mapping):
        return {str(key): _flat_node(item, kwargs, depth + 1) for key, item in node.items()}
    return node


def _add_kwargs(node: list[object], kwargs: dict[str, object]) -> None:
    given = structure(node[3]) if len(node) == 4 else None
    if isinstance(given, dict):
        kwargs.update(given)


def leaves(tree: object) -> Iterator[object]:
    """What a structure holds, in Keras's order: of lists as they stand, of dicts by their keys."""
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, list | tuple):
            pending.extend(reversed(item))
        elif isinstance(item, Mapping):
            pending.extend(item[key] for key in sorted(item, reverse=True))
        elif isinstance(item, slice):
            pending.extend((item.step, item.stop, item.start))
        else:
            yield item


def mapped(tree: object, change: Callable[[object], object]) -> object:
    """The structure with other leaves."""
    if isinstance(tree, list):
        return [mapped(item, change) for item in tree]
    if isinstance(tree, tuple):
        return tuple(mapped(item, change) for item in tree)
    if isinstance(tree, Mapping):
        return {key: mapped(item, change) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*(mapped(item, change) for item in (tree.start, tree.stop, tree.step)))
    return change(tree)
