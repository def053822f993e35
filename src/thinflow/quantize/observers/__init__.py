"""Range observers: each watches one tensor over all calibration samples and proposes its range [low, high].

A class becomes an observer by `@observer("name")`, in the modules of this folder and elsewhere.
`Recipe.observer_options` are its keyword arguments.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from thinflow.errors import ParameterError, closest
from thinflow.typing import Array


class Observer(Protocol):
    """Sees a tensor's values, sample by sample; its memory must not grow with the number of samples.

    Attributes:
        passes: how often the calibration data are walked. The range is asked for after the last walk.
    """

    passes: int

    def begin(self, walk: int) -> None:
        """A walk over all samples starts; the first is number 0."""

    def observe(self, values: Array, low: float, high: float) -> None:
        """One sample: finite values in any shape, at least one, and their extremes; not to be kept."""

    def range(self) -> tuple[float, float]:
        """The proposed range; not yet widened to contain 0."""


State = dict[str, Array]
"""What an observer has seen, by name: arrays of numbers, to be stored and sent."""


@runtime_checkable
class Mergeable(Observer, Protocol):
    """An observer that can see the samples in parts, on several machines.

    Merged in the order of the parts, states are what one observer of all samples has, bit for bit: extremes,
    whole numbers and sums that are exact.
    """

    def state(self) -> State:
        """What it has seen in this walk."""

    def merge(self, later: State) -> None:
        """What another one has seen in this walk, of the samples that come next."""

    def resume(self, walk: int, whole: State, before: State) -> None:
        """Begin a walk over some of the samples.

        Args:
            whole: state behind the first walk over all of them; empty in that walk.
            before: state behind the first walk over those that come before; empty in that walk.
        """


class Watcher:
    """An observer of one walk that proposes no range: what it sees is asked for by whoever made it."""

    passes = 1

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        """See `Observer`."""
        raise NotImplementedError

    def range(self) -> tuple[float, float]:
        """An empty one, its low end above the high one."""
        return 1.0, -1.0


_REGISTRY: dict[str, Callable[..., Observer]] = {}
_O = TypeVar("_O", bound=type)


def observer(name: str) -> Callable[[_O], _O]:
    """Class decorator that makes an observer available under a name."""

    def register(cls: _O) -> _O:
        # One from elsewhere may come first and take a name of ours: loaded before, ours are there to clash
        # with.
        if not cls.__module__.startswith(f"{__name__}."):
            _load_all()
        if name in _REGISTRY:
            raise ParameterError(f"two observers are called '{name}'")
        _REGISTRY[name] = cls
        return cls

    return register


def names() -> list[str]:
    """Every observer, sorted."""
    _load_all()
    return sorted(_REGISTRY)


def _load_all() -> None:
    """Import the modules of this folder, which registers their observers."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def make(name: str, options: Mapping[str, object] | None = None) -> Observer:
    """A fresh observer.

    Raises:
        ParameterError: no observer of that name, or it has no such option.
    """
    _load_all()
    maker = _REGISTRY.get(name)
    if maker is None:
        raise ParameterError(
            f"there is no observer '{name}'",
            hint=closest(name, names()) or f"there are: {', '.join(names())}",
        )
    known = inspect.signature(maker).parameters
    for option in options or {}:
        if option not in known:
            hint = closest(option, known) or f"it has: {', '.join(known) or 'no options'}"
            raise ParameterError(f"observer '{name}' has no option '{option}'", hint=hint)
    return maker(**(options or {}))
