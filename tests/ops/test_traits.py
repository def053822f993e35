"""Traits of ops: what they imply, and that a new op has them wherever it is asked for."""

from __future__ import annotations

import pytest

from thinflow.ir.order import MERGES, NEXT_ITERATIONS
from thinflow.ops import registry, traits
from thinflow.ops.registry import OpDef, op
from thinflow.ops.traits import RuleTable, Trait, declare, has, ops_with


@pytest.mark.parametrize("trait", Trait)
def test_every_trait_is_of_use(trait: Trait) -> None:
    assert ops_with(trait)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Trait.ENTER | Trait.EXIT | Trait.NEXT_ITERATION | Trait.SWITCH | Trait.MERGE, Trait.CONTROL_FLOW),
        (Trait.FED, Trait.PLACEHOLDER),
        (Trait.TF1_VARIABLE, Trait.VARIABLE),
        (Trait.TF1_VARIABLE, Trait.GIVES_REFERENCE),
        (Trait.VARIABLE | Trait.QUEUE, Trait.RESOURCE),
        (Trait.IDENTITY, Trait.PASSES_THROUGH),
        (Trait.FUSED_BATCH_NORM, Trait.BATCH_NORM),
    ],
)
def test_one_trait_implies_another(narrow: Trait, wide: Trait) -> None:
    assert ops_with(narrow) <= ops_with(wide)


def test_orders_of_graphs_know_the_same_loops() -> None:
    """`ir` lies below the ops and has names of its own."""
    assert ops_with(Trait.NEXT_ITERATION) == NEXT_ITERATIONS
    assert ops_with(Trait.MERGE) <= MERGES


def test_several_traits_mean_any_of_them() -> None:
    assert has("Enter", Trait.ENTER | Trait.EXIT)
    assert not has("Enter", Trait.EXIT)
    assert ops_with(Trait.ENTER | Trait.EXIT) == {"Enter", "RefEnter", "Exit", "RefExit"}


def test_an_op_nobody_defined_has_no_trait() -> None:
    assert not any(has("Acme", trait) for trait in Trait)


def test_a_subclass_has_the_traits_of_its_bases() -> None:
    assert registry.get("While").has(Trait.WHILE)
    assert registry.get("While").has(Trait.STATEFUL)
    assert not registry.get("StatelessWhile").has(Trait.STATEFUL)


def test_a_new_op_is_known_wherever_its_trait_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traits.classes, "_found", dict(traits.classes._found))
    monkeypatch.setattr(traits, "_declared", dict(traits._declared))
    assert "AcmeAdd" not in ops_with(Trait.ADD)

    @op("AcmeAdd")
    class AcmeAdd(OpDef):
        traits = Trait.ADD

    assert has("AcmeAdd", Trait.ADD)
    assert AcmeAdd.has(Trait.ADD)
    assert "AcmeAdd" in ops_with(Trait.ADD)


def test_rules_by_trait_find_ops_of_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traits, "_declared", dict(traits._declared))
    rules: RuleTable[str] = RuleTable()
    rules.rule(Trait.PAD)("the rule")
    assert rules.of("PadOfAPlugin") == ()
    declare(["PadOfAPlugin"], Trait.PAD)
    assert rules.of("PadOfAPlugin") == ("the rule",)
