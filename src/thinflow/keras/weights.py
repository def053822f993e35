"""Which array of a file is which variable of which layer.

.keras files name a variable by its place: `layers/conv2d_1/vars/0`, where layers of a class are counted in
the order of the config. .h5 files have a list for each layer of the outermost model: first what training
changes, then the rest, over all layers inside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from thinflow.errors import FormatError
from thinflow.keras.config import LayerConfig
from thinflow.keras.files import EARLY_LAYERS, KerasFile
from thinflow.keras.hdf5 import Group
from thinflow.keras.registry import Entry, Slot
from thinflow.typing import Array

_LISTS = "layer_names"
_CLASSES = {"GroupQueryAttention": "GroupedQueryAttention"}
"""Layers that Keras exports under another name than that of their class, which paths have."""
_MISFIT = "the weights are of another model than the config; save the whole model again"


class Weights:
    """The arrays of a model by path of layer and name of variable: "layers/conv2d_1/kernel".

    Args:
        file: what holds them.
        model: the config.
        entries: class of a layer -> what is known of it.
    """

    def __init__(self, file: KerasFile, model: LayerConfig, entries: Entries) -> None:
        self._root = root = file.weights
        self._file = file
        self._lists = root.texts(_LISTS) is not None
        self._entries = entries
        self._places: dict[str, tuple[Group, str]] = {}
        if self._lists:
            self._read_lists(model)
        else:
            self._read_paths(model)

    def get(self, path: str) -> Array | None:
        """The array of a variable; None if the file has none."""
        place = self._places.get(path)
        return None if place is None else place[0].array(place[1])

    def asset(self, name: str) -> bytes | None:
        """The content of a file beside the weights, such as a vocabulary; None if there is none."""
        return self._file.asset(name)

    @property
    def version(self) -> tuple[int, int]:
        """The first two numbers of that of Keras."""
        return self._file.release

    @property
    def is_flipped(self) -> bool:
        """True if kernels of convolutions are stored turned around, as Theano wanted them."""
        return self._file.backend == "theano"

    # --- by place -----------------------------------------------------------------------------------------

    def _read_paths(self, model: LayerConfig) -> None:
        counts: dict[str, int] = {}
        early = self._early_paths(model)
        for slot in self._entries.slots(model):
            owner, _, own = slot.path.rpartition("/")
            number = counts.get(owner, 0)
            counts[owner] = number + 1
            self._places[slot.path] = (self._root, "")
            for candidate in _spellings(owner, early):
                group = self._root.group(f"{candidate}/vars")
                # Some layers name what they store themselves.
                key = next((k for k in (str(number), own) if group is not None and k in group), None)
                if group is not None and key is not None:
                    self._places[slot.path] = (group, key)
                    break

        self._refuse_strange(model, "", early)

    def _early_paths(self, model: LayerConfig, path: str = "", early: str = "") -> dict[str, str]:
        """The path of each layer, also of those inside -> that in a file of Keras 2.12 to 2.14."""
        assert model.model is not None
        layers = model.model.layers
        places = numbers = layer_paths(layers)
        # Keras 2.12 and 2.13 list a layer that has weights twice, and count both.
        twice = layer_paths(
            layers, twice={layer.name for layer, slots in self._entries.children(model) if slots}
        )
        group = self._root.group(_below(early, EARLY_LAYERS))
        if group is not None and {f"layers/{name}" for name in group.names()} <= set(twice.values()):
            numbers = twice
        found = {}
        for layer in layers:
            new = _below(path, places[layer.name])
            found[new] = _below(early, numbers[layer.name].replace("layers/", f"{EARLY_LAYERS}/"))
            if layer.model is not None:
                found |= self._early_paths(layer, new, found[new])
        return found

    def _stored(self, root: str) -> list[str]:
        """Names of the layers in a group that have variables."""
        group = self._root.group(root)
        variables = {} if group is None else {name: group.group(f"{name}/vars") for name in group.names()}
        return [name for name, held in variables.items() if held is not None and held.names()]

    def _refuse_strange(self, model: LayerConfig, path: str, early: Mapping[str, str]) -> None:
        """Refuse weights of a layer that the config does not have."""
        assert model.model is not None
        for root in (_below(path, "layers"), _below(early.get(path, ""), EARLY_LAYERS)):
            for name in self._stored(root):
                if f"{root}/{name}" not in early and f"{root}/{name}" not in early.values():
                    problem = f"it holds weights of a layer '{name}', which the config does not have"
                    raise FormatError(problem, self._root.path, _MISFIT)
        places = layer_paths(model.model.layers)
        for layer in model.model.layers:
            if layer.model is not None:
                self._refuse_strange(layer, _below(path, places[layer.name]), early)

    # --- by list ------------------------------------------------------------------------------------------

    def _read_lists(self, model: LayerConfig) -> None:
        assert model.model is not None
        named = {name: self._weight_names(name) for name in self._root.texts(_LISTS) or []}
        stored = [name for name, weights in named.items() if weights]
        listed = (
            (layer, [slot for slot in slots if not slot.in_archives])
            for layer, slots in self._entries.children(model)
        )
        wanted = [(layer, slots) for layer, slots in listed if slots]
        # By name where all are there; else one after the other, as Keras does it.
        by_name = all(layer.name in named for layer, _ in wanted)
        known = {layer.name for layer in model.model.layers}
        strange = [name for name in stored if name not in known]
        if len(stored) != len(wanted) if not by_name else strange:
            counts = f"{len(wanted)} layers have weights, and the file holds those of {len(stored)}"
            missing = [layer.name for layer, _ in wanted if layer.name not in stored]
            raise FormatError(counts + _named(missing, strange), self._root.path, _MISFIT)
        for number, (layer, slots) in enumerate(wanted):
            name = layer.name if by_name else stored[number]
            self._read_list(layer, name, named[name], slots)

    def _read_list(self, layer: LayerConfig, name: str, names: Sequence[str], slots: Sequence[Slot]) -> None:
        ordered = sorted(slots, key=lambda slot: not slot.trained)
        if len(names) != len(ordered):
            raise FormatError(
                f"it has {len(ordered)} arrays of weights, and the file holds {len(names)}",
                layer.where,
                _MISFIT,
            )
        group = self._root.group(name)
        assert group is not None
        for slot, stored in zip(ordered, names, strict=True):
            self._places[slot.path] = (group, stored)

    def _weight_names(self, layer: str) -> list[str]:
        group = self._root.group(layer)
        if group is None:
            raise FormatError(f"the weights of the layer '{layer}' are missing", self._root.path, _MISFIT)
        return group.texts("weight_names") or []


class Entries:
    """What is known of layers, asked for whole models.

    Args:
        by_class: what the registry knows.
        custom: what the caller gave, by the names of classes or of Lambda layers.

    Attributes:
        fitted: names of what the caller gave that somebody has asked for.
    """

    def __init__(self, by_class: Mapping[str, Entry], custom: Mapping[str, Entry]) -> None:
        self._by_class, self._custom = by_class, custom
        self.fitted: set[str] = set()

    def of(self, layer: LayerConfig) -> Entry | None:
        """What is known of a layer; None if nothing is."""
        if layer.kind == "Lambda":
            return self.custom(layer.name)
        if layer.is_custom:
            names = (layer.registered, layer.kind)
            given = next((found for n in names if (found := self.custom(n)) is not None), None)
            # A plug-in registers under the name with the package: "Acme>Scale".
            return given or next((self._by_class[n] for n in names if ">" in n and n in self._by_class), None)
        return self.custom(layer.kind) or self._by_class.get(layer.kind)

    def custom(self, name: str) -> Entry | None:
        """What the caller gave under a name."""
        found = self._custom.get(name)
        if found is not None:
            self.fitted.add(name)
        return found

    def slots(self, layer: LayerConfig, path: str = "") -> list[Slot]:
        """All variables of a layer, and of the layers inside; those of frozen layers as not trained."""
        prefix = f"{path}/" if path else ""
        if layer.model is not None:
            found = [slot for _, slots in self.children(layer, path) for slot in slots]
        else:
            entry = None if layer.is_operation else self.of(layer)
            own = entry.slots(layer, self) if entry is not None else []
            found = [replace(slot, path=f"{prefix}{slot.path}") for slot in own]
        return found if layer.trainable else [replace(slot, trained=False) for slot in found]

    def children(self, model: LayerConfig, path: str = "") -> list[tuple[LayerConfig, list[Slot]]]:
        """The layers of a model with their variables."""
        assert model.model is not None
        places = layer_paths(model.model.layers)
        prefix = f"{path}/" if path else ""
        return [(layer, self.slots(layer, prefix + places[layer.name])) for layer in model.model.layers]


def _named(missing: Sequence[str], strange: Sequence[str]) -> str:
    """The first layers that the config or the file has alone."""
    sides = ((missing, "the file has none of"), (strange, "the config does not have"))
    found = [f"{words} {', '.join(map(repr, names[:3]))}" for names, words in sides if names]
    return f": {'; '.join(found)}" if found else ""


def layer_paths(layers: Iterable[LayerConfig], twice: Collection[str] = ()) -> dict[str, str]:
    """The name of each layer -> its place in a .keras file: "layers/conv2d_1".

    Args:
        layers: of one model.
        twice: names of those that count twice.
    """
    counts: dict[str, int] = {}
    places: dict[str, str] = {}
    for layer in layers:
        if layer.is_operation:
            places[layer.name] = f"operations/{layer.name}"
            continue
        snake = snake_case(layer.kind)
        number = counts.get(snake, 0)
        counts[snake] = number + (2 if layer.name in twice else 1)
        places[layer.name] = f"layers/{snake}_{number}" if number else f"layers/{snake}"
    return places


def snake_case(kind: str) -> str:
    """A class's name as Keras writes it in paths: "conv2d_transpose" for Conv2DTranspose."""
    name = re.sub(r"\W+", "", _CLASSES.get(kind, kind))
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _spellings(owner: str, early: Mapping[str, str]) -> list[str]:
    """The path of a layer as versions of Keras spell it."""
    head, _, last = owner.rpartition("/")
    # A part of a layer, such as the cell of a recurrent one, has the path of the layer before its own.
    layer, part = owner, ""
    while layer not in early and layer:
        layer, _, last_part = layer.rpartition("/")
        part = f"/{last_part}{part}"
    # Keras 2 wrote the private names of attributes: `_query_dense`.
    return [owner, f"{head}/_{last}" if head else f"_{last}", early.get(layer, layer) + part]


def _below(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
