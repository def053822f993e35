"""Layers: functions that say what a layer of Keras computes in TensorFlow's ops.

    @layer("Dense", weights="kernel bias?use_bias")
    def dense(c):
        y = c.emit("MatMul", c[0], c.weight("kernel", (None, c.int("units"))))
        return c.activated(c.biased(y))

A function reads the options that it understands. Whatever else the config has may change what the layer
computes, in a newer Keras, say: then the layer is refused by the option's name. `weights` names the layer's
variables in the order in which Keras keeps them, which is the only thing that a file says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Protocol, TypeAlias

from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.discovery import Registered
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig

Result: TypeAlias = object
"""A value, or a structure of values."""
Rule: TypeAlias = Callable[[Call], Result]


@dataclass(frozen=True)
class Slot:
    """One variable of a layer.

    Attributes:
        path: its name, behind the layers inside that it belongs to: "kernel", "cell/kernel".
        trained: False for what training does not change, such as a moving mean.
        in_archives: True for what Keras writes into `.keras` archives, and not into `.h5` files.
    """

    path: str
    trained: bool = True
    in_archives: bool = False


class Inside(Protocol):
    """What tells the variables of layers inside a layer."""

    def slots(self, layer: LayerConfig, path: str = "") -> list[Slot]:
        """The variables of a layer, with a path in front of their names."""


Slots: TypeAlias = Callable[[LayerConfig, Inside], list[Slot]]
"""The variables of a layer."""


@dataclass(frozen=True)
class Entry:
    """A layer's function, and what else is to be known of it.

    Attributes:
        rule: gets the call, gives its results.
        slots: the variables of a layer with that config, in Keras's order.
        ignores: options that do not bear on what it computes when it infers.
        masks: what becomes of the mask of its input: "drop", "pass" (the same for the output), or "own": the
            function sets it.
        real: whether it computes with floats, so that whole numbers that come in become such.
    """

    rule: Rule
    slots: Slots
    ignores: frozenset[str] = frozenset()
    masks: str = "drop"
    real: bool = False


@dataclass(frozen=True)
class Registry:
    """Entries by the class of the layer, and by the module and name of functions."""

    layers: Registered[Entry]
    operations: Registered[Entry]


_REGISTRY = Registry(
    Registered("thinflow.keras.layers", "layer"), Registered("thinflow.keras.operations", "operation")
)
_GIVEN: dict[str, object] = {}
"""What the user gave for this process: name of a custom class or of a Lambda layer -> function."""
_FITTED: set[str] = set()
_MET: dict[str, None] = {}
"""Names of what was given that a model has had; custom classes and Lambda layers of models, in order."""


def layer(
    *kinds: str,
    weights: str | Slots = "",
    ignores: Iterable[str] = (),
    masks: str = "drop",
    real: bool = False,
) -> Callable[[Rule], Rule]:
    """Function decorator: what layers of these classes compute; see `Entry`.

    Args:
        kinds: names of classes; of a custom one the name that it is registered under: "Acme>Swish".
        weights: names of the variables. `?use_bias` behind one says of which option it depends, `!` that
            training does not change it. A function of the config where that is not enough.
        ignores, masks, real: see `Entry`.
    """
    slots = weights if callable(weights) else named_slots(weights)
    left = frozenset(ignores)
    return _registered(_REGISTRY.layers, kinds, lambda rule: Entry(rule, slots, left, masks, real))


def operation(*names: str, ignores: Iterable[str] = ()) -> Callable[[Rule], Rule]:
    """Function decorator: what a function called on tensors of a model computes.

    Args:
        names: of Keras 3's classes of operations ("GetItem"), and of TensorFlow's functions in a TFOpLambda
            ("math.multiply").
        ignores: arguments that do not bear on what it computes.
    """
    slots, left = named_slots(""), frozenset(ignores)
    return _registered(_REGISTRY.operations, names, lambda rule: Entry(rule, slots, left))


def _registered(
    table: Registered[Entry], names: Iterable[str], entry: Callable[[Rule], Entry]
) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            # Which of two functions were taken would depend on the order of imports.
            if table.add(name, made := entry(rule), rule.__module__) is not made:
                raise RuntimeError(f"two functions say what {name} computes")
        return rule

    return register


def named_slots(text: str) -> Slots:
    """Slots from a text such as "kernel bias?use_bias moving_mean!"."""
    words = [(word.rstrip("!"), not word.endswith("!")) for word in text.split()]
    parsed = [(*word.partition("?")[::2], trained) for word, trained in words]

    def slots(config: LayerConfig, inside: Inside) -> list[Slot]:
        return [
            Slot(name, trained)
            for name, option, trained in parsed
            if not option or config.options.get(option, True)
        ]

    return slots


def registry() -> Registry:
    """All that is known."""
    return _REGISTRY


def give(name: str, function: object) -> None:
    """Let a function say what a custom class, or a Lambda layer of that name, computes; in this process."""
    _entry(name, function)
    _GIVEN[name] = function
    _FITTED.discard(name)


def met(layers: Iterable[str], fitted: Iterable[str]) -> None:
    """Note the custom classes and Lambda layers of a model, and the names for which something was given."""
    _MET.update(dict.fromkeys(layers))
    _FITTED.update(fitted)


def require_met(names: Iterable[str]) -> None:
    """Check that models which were opened have layers of these names.

    Raises:
        ParameterError: none has; lists what functions can be given for.
    """
    for name in names:
        if name not in _FITTED:
            raise no_such_layer(f"--lambda {name}=", _MET)


def no_such_layer(given: str, own: Iterable[str]) -> ParameterError:
    """The error that a function is given for a layer that is not there.

    Args:
        given: how it was given.
        own: the custom classes and Lambda layers that there are.
    """
    listed = ", ".join(list(own)[:20])
    return ParameterError(
        f"{given} is for a layer that the model does not have",
        hint=f"its Lambda layers and custom classes are: {listed}"
        if listed
        else "it has neither Lambda layers nor custom classes: leave it out",
    )


def custom_entries(given: Mapping[str, object]) -> dict[str, Entry]:
    """Entries for what the caller gives for custom classes and Lambda layers, and for what `give` was told.

    Raises:
        ParameterError: one is no function.
    """
    return {name: _entry(name, rule) for name, rule in {**_GIVEN, **given}.items()}


def _entry(name: str, rule: object) -> Entry:
    known = next((e for e in _REGISTRY.layers.values() if e.rule is rule), None)
    # A function that is registered already brings the names of its variables along.
    if known is not None:
        return known
    if not callable(rule):
        raise ParameterError(
            f"what is given for the layer '{name}' is no function",
            hint="give a function of the call; see 'A Keras layer' in CONTRIBUTING.md",
        )
    return Entry(_told(name, rule), named_slots(""))


def _told(name: str, function: Callable[..., Result]) -> Rule:
    """The function of a user, whose mistakes are told as that: the file has no part in them."""

    @wraps(function)
    def rule(call: Call) -> Result:
        try:
            return function(call)
        except ThinflowError:
            raise
        except Exception as error:
            raise ParameterError(
                f"the function that is given for '{name}' fails: {type(error).__name__}: {error}",
                hint="it gets the call of the layer; see 'A Keras layer' in CONTRIBUTING.md",
            ) from error

    return rule
