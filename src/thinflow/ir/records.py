"""`dataclass` as in the standard library, but what it makes is made when it is needed.

A process that converts one small model defines some two hundred data classes, makes objects of half of them,
and compares, hashes or prints few. The standard library writes and compiles the text of up to six methods for
each class, about a millisecond of CPU time; together that was an eighth of such a process. Here the standard
library collects the fields, so that `fields`, `replace`, `asdict` and inheritance are its own; the text of
`__init__` is compiled when the first object is made, and the other methods are closures that need none.

Type checkers see the standard library's. What else its decorator can do, such as slots, it does itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`, with its options."""
        if cls is None:
            return lambda decorated: _dataclass(decorated, **options)
        return _dataclass(cls, **options)


_OURS = {"frozen", "eq", "repr", "kw_only"}
Fields = tuple[dataclasses.Field[Any], ...]


def _dataclass(cls: type, **options: bool) -> type:
    frozen, eq, shown = options.get("frozen", False), options.get("eq", True), options.get("repr", True)
    own = vars(cls)
    explicit = {name for name in _METHODS if name in own}
    if not options.keys() <= _OURS or _is_beyond(cls, explicit, frozen):
        return dataclasses.dataclass(**options)(cls)
    # A class that defines `__eq__` has None for a hash, which is not its own wish.
    if "__eq__" in explicit and own["__hash__"] is None:
        explicit.discard("__hash__")
    bare = {"init": False, "repr": False, "eq": False, "kw_only": options.get("kw_only", False)}
    dataclasses.dataclass(**bare)(cls)
    fields = dataclasses.fields(cls)
    made: dict[str, Any] = {"__init__": _Late(cls, fields, frozen)}
    if shown:
        made["__repr__"] = _repr_of(fields)
    if eq:
        made |= _comparison_of(fields, frozen)
    if frozen:
        made |= _guards_of(cls, fields)
    for name, value in made.items():
        if name not in explicit:
            setattr(cls, name, value)
    # Data classes made of this one ask these: whether a frozen one may stand below, say.
    for name, flag in {"init": True, "repr": shown, "eq": eq, "frozen": frozen}.items():
        setattr(cls.__dataclass_params__, name, flag)  # type: ignore[attr-defined]
    return cls


_METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")


def _is_beyond(cls: type, explicit: set[str], frozen: bool) -> bool:
    """Whether a class is left to the standard library."""
    # Which says what may inherit from what, and refuses frozen classes that guard their fields themselves.
    if frozen and explicit & {"__setattr__", "__delattr__"}:
        return True
    parents = (getattr(base, "__dataclass_params__", None) for base in cls.__mro__[1:])
    if any(parent is not None and (parent.frozen or frozen) for parent in parents):
        return True
    return any("InitVar" in str(annotation) for annotation in cls.__annotations__.values())


class _Factory:
    """Default of a parameter whose value a factory makes; as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


class _Late:
    """Stands for the `__init__` of a class until somebody calls it or looks at it."""

    def __init__(self, cls: type, fields: Fields, frozen: bool) -> None:
        self.cls, self.fields, self.frozen = cls, fields, frozen

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # Two threads may both make it; either is right.
        made = _init_of(self.cls, self.fields, self.frozen)
        self.cls.__init__ = made  # type: ignore[misc]
        return made if instance is None else made.__get__(instance, owner)


def _init_of(cls: type, fields: Fields, frozen: bool) -> Any:
    names: dict[str, Any] = {"_absent": _Factory(), "_set": object.__setattr__}
    by_place, by_keyword, body = ["self"], ["*"], []
    for n, field in enumerate(fields):
        parameter = value = field.name
        if field.default is not dataclasses.MISSING:
            names[f"_default{n}"] = field.default
            parameter = f"{value}=_default{n}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make{n}"] = field.default_factory
            parameter = f"{value}=_absent"
            value = f"_make{n}() if {value} is _absent else {value}" if field.init else f"_make{n}()"
        if field.init:
            (by_keyword if field.kw_only else by_place).append(parameter)
        # What is no parameter and has no factory is set by the class, or has a default there.
        if field.init or f"_make{n}" in names:
            body.append(f"_set(self, '{field.name}', {value})" if frozen else f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*by_place, *(by_keyword if len(by_keyword) > 1 else ())])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)
    made = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{f.name: f.type for f in fields if f.init}, "return": None}
    return made


def _repr_of(fields: Fields) -> Callable[[Any], str]:
    shown = [f.name for f in fields if f.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _comparison_of(fields: Fields, frozen: bool) -> dict[str, Any]:
    key = _values([f.name for f in fields if f.compare])

    def __eq__(self: Any, other: Any) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    if not frozen:
        return {"__eq__": __eq__, "__hash__": None}
    hashed = _values([f.name for f in fields if (f.compare if f.hash is None else f.hash)])

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gets some attributes of an object, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _guards_of(cls: Any, fields: Fields) -> dict[str, Any]:
    names = {f.name for f in fields}

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}
