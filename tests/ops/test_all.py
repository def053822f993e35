"""What holds for every op of the registry, whatever it computes.

Cases are those of the other modules here: a table `CASES` (or `MORE`) of op name -> inputs and attributes.
Each module runs its own through `check_agreement`; this one makes sure that no op is forgotten and looks at
what needs no kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import Parameter
from itertools import islice

import numpy as np
import pytest

from tests.ops._agreement import _weakened, spec_of
from tests.ops.cases import HERE, cases
from thinflow.ir.types import TensorSpec
from thinflow.ops import registry
from thinflow.ops.registry import OpDef

OPS = dict(registry.all_ops())
FUNCTIONS = ("infer", "kernel", "cost")

_HANDLES = (
    *("tensor_array", "tensor_list", "lookup", "table_files", "variables", "scatter_variables", "queues"),
    *("containers", "ragged_variant"),
)
WITHOUT_CASES = {f"thinflow.ops.{family}" for family in _HANDLES}
"""Their ops take lists, tables and the like, which no array stands for: test_tensor_list.py and
test_resources.py run them in sequences."""

ROUNDS = 6
"""Random ways to forget things, per case."""


def test_every_kernel_has_a_case() -> None:
    missing = [
        name
        for name, definition in OPS.items()
        if definition.kernel is not None
        and name not in cases()
        and definition.__module__ not in WITHOUT_CASES
    ]
    assert missing == [], "add cases to the table CASES in the test module of the family"


def test_an_exception_has_no_cases() -> None:
    for module in WITHOUT_CASES:
        names = {name for name, definition in OPS.items() if definition.__module__ == module}
        assert names
        assert not names & set(cases())


def test_every_table_of_cases_is_run() -> None:
    for file in HERE.glob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if "\nCASES" in text:
            assert "check_agreement(" in text, file.name


def test_names_in_tables_are_ops() -> None:
    assert sorted(set(cases()) - set(OPS)) == []


@pytest.mark.parametrize("name", OPS)
def test_class(name: str) -> None:
    """Documented, and its functions agree on the defaults of attributes and on the order of inputs."""
    definition = OPS[name]
    assert (definition.__dict__.get("__doc__") or "").strip(), f"{definition.__name__} has no docstring"
    assert name in definition.names
    defaults: dict[str, dict[str, str]] = {}
    for function in _functions(definition):
        for attr, default in registry.signature(getattr(definition, function)).attrs.items():
            text = "required" if default is Parameter.empty else f"{type(default).__name__} {default!r}"
            defaults.setdefault(attr, {})[function] = text
    for attr, given in defaults.items():
        assert len(set(given.values())) == 1, f"default of '{attr}' differs: {given}"
    _check_order(definition)


def _functions(definition: type[OpDef]) -> list[str]:
    return [f for f in FUNCTIONS if getattr(definition, f) is not None]


def _check_order(definition: type[OpDef]) -> None:
    """An input that two functions name is in the same place in both (`cost` has the output before them)."""
    orders = []
    for function in _functions(definition):
        names = registry.signature(getattr(definition, function)).positional
        orders.append(names[1:] if function == "cost" else names)
    longest = max(orders, key=len, default=())
    for names in orders:
        for place, word in enumerate(names):
            assert word not in longest or longest[place] == word, f"{names} and {longest}"


@pytest.mark.parametrize("name", sorted(cases()))
def test_cost(name: str) -> None:
    definition = OPS[name]
    for inputs, attrs in cases()[name]:
        specs = [spec_of(np.asarray(x)) for x in inputs]
        outputs = registry.call_infer(definition, specs, attrs)
        cost = registry.call_cost(definition, outputs, specs, attrs)
        assert isinstance(cost.flops, int)
        assert isinstance(cost.macs, int)
        assert 0 <= 2 * cost.macs <= cost.flops


@pytest.mark.parametrize("name", sorted(cases()))
def test_knowing_less_contradicts_nothing(name: str) -> None:
    """Several inputs forgotten at once, in random ways: the rule says less, never something else."""
    definition = OPS[name]
    rng = np.random.default_rng(len(name))
    for inputs, attrs in cases()[name]:
        full = [spec_of(np.asarray(x)) for x in inputs]
        expected = registry.call_infer(definition, full, attrs)
        for specs in islice(_forgetting(full, rng), ROUNDS):
            found = registry.call_infer(definition, specs, attrs)
            assert len(found) == len(expected)
            for less, more in zip(found, expected, strict=True):
                where = f"{name}({', '.join(map(str, specs))}) gives {less}, knowing all {more}"
                assert less.dtype == more.dtype, where
                assert _compatible(less.shape, more.shape), where
                assert _compatible(less.elements, more.elements), where


def _forgetting(full: Sequence[TensorSpec], rng: np.random.Generator) -> Iterator[list[TensorSpec]]:
    choices = [[spec, *_weakened(spec)] for spec in full]
    while True:
        yield [known[rng.integers(len(known))] for known in choices]


def _compatible(a: Sequence[int | None] | None, b: Sequence[int | None] | None) -> bool:
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(None in (x, y) or x == y for x, y in zip(a, b, strict=True))
