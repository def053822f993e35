"""Data classes are those of the standard library in all that can be seen of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, Generic, TypeVar

import pytest

from thinflow.ir import records

T = TypeVar("T")


@records.dataclass(frozen=True)
class Point:
    """At module level, so that it can be pickled."""

    x: int
    y: float = 0.5


def plain(made: Any) -> type:
    @made
    class Sample:
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: int = field(default=3, compare=False, repr=False)
        e: list[int] = field(default_factory=list, init=False)
        f: int = field(default=7, init=False)
        g: int = field(default=8, kw_only=True)

        def __post_init__(self) -> None:
            self.e.append(self.a)

    return Sample


def frozen(made: Any) -> type:
    @made(frozen=True)
    class Sample:
        a: tuple[int, ...] = ()
        b: Any = field(default=None, hash=False)

    return Sample


def by_identity(made: Any) -> type:
    @made(frozen=True, eq=False, repr=False)
    class Sample:
        a: int = 0

    return Sample


def own_methods(made: Any) -> type:
    @made
    class Sample:
        a: int = 0

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    return Sample


def derived(made: Any) -> type:
    @made(kw_only=True)
    class Base(Generic[T]):
        a: int = 1

    @made
    class Sample(Base[T]):
        b: int

    return Sample


def frozen_derived(made: Any) -> type:
    @made(frozen=True)
    class Sample(frozen(made)):  # type: ignore[misc]
        c: int = 4

    return Sample


def empty(made: Any) -> type:
    @made
    class Sample:
        pass

    return Sample


CALLS: dict[Callable[[Any], type], list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    plain: [((1,), {}), ((1, "x", [2]), {"g": 9}), ((), {}), ((1,), {"e": [1]}), ((1, "x", [], 4, 5), {})],
    frozen: [((), {}), (((1,), []), {}), ((), {"b": [1]}), (([],), {}), ((), {"z": 1})],
    by_identity: [((), {}), ((4,), {})],
    own_methods: [((), {}), ((4,), {})],
    derived: [((2,), {}), ((2,), {"a": 3}), ((2, 3), {})],
    frozen_derived: [((), {}), (((1,), 2, 3), {}), ((), {"c": 1})],
    empty: [((), {}), ((1,), {})],
}


def seen(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """All that can be seen of an object and its class; errors as their words."""

    def tried(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except Exception as error:
            return type(error), str(error)

    def changed() -> Any:
        other = cls(*args, **kwargs)
        other.a = 11
        return other.a

    made = tried(lambda: cls(*args, **kwargs))
    if isinstance(made, tuple):
        return [made]
    again = cls(*args, **kwargs)
    own_repr = "own" if cls.__repr__ is object.__repr__ else repr(made)
    return [
        *(own_repr, vars(made), made == again, made != again, made == 1),
        tried(lambda: hash(made) == hash(again)) if "own" not in own_repr else None,
        *(tried(changed), tried(lambda: delattr(again, "a")), tried(lambda: setattr(again, "zz", 1))),
        *(dataclasses.asdict(made), dataclasses.is_dataclass(cls), vars(dataclasses.replace(made))),
        *([(f.name, f.kw_only, f.init) for f in dataclasses.fields(cls)], cls.__match_args__),  # type: ignore
        str(inspect.signature(cls)),
        vars(copy.deepcopy(made)),
    ]


@pytest.mark.parametrize("case", CALLS, ids=lambda c: c.__name__)
def test_objects_are_those_of_the_standard_library(case: Callable[[Any], type]) -> None:
    for args, kwargs in CALLS[case]:
        theirs = seen(case(dataclasses.dataclass), args, kwargs)
        assert seen(case(records.dataclass), args, kwargs) == theirs


def test_what_was_never_made_here_is_whole() -> None:
    """An object that comes out of a file, or from another process, is made without `__init__`."""
    code = "import sys, pickle\nfrom thinflow.ir.types import TensorSpec, FLOAT\n"
    code += "one, two = pickle.load(sys.stdin.buffer)\nassert one == two and hash(one) == hash(two)\n"
    code += "print(one)\n"
    from thinflow.ir.types import FLOAT, TensorSpec

    specs = TensorSpec(FLOAT, (1, 2)), TensorSpec(FLOAT, (1, 2))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=pickle.dumps(specs), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip() == str(specs[0])


def test_the_first_object_may_be_made_by_many_threads() -> None:
    for _ in range(20):
        cls, failures, start = frozen(records.dataclass), [], threading.Barrier(4)

        def make(cls: Any = cls, start: Any = start, failures: Any = failures) -> None:
            start.wait()
            try:
                assert cls((1,)).a == (1,)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_guards_and_pickles() -> None:
    point = Point(1)
    assert pickle.loads(pickle.dumps(point)) == point
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]


def test_every_class_can_be_made() -> None:
    """Mistakes in the order of defaults show when the first object is made."""
    import thinflow.optimize.conversion
    import thinflow.optimize.litert  # noqa: F401

    late = {
        value
        for module in list(sys.modules.values())
        if module is not None and module.__name__.startswith("thinflow.")
        for value in vars(module).values()
        if isinstance(value, type) and isinstance(vars(value).get("__init__"), records._Late)
    }
    assert all(inspect.signature(cls) for cls in late)
