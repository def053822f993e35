"""Results of shape rules, remembered so that nodes that are alike are asked about once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from thinflow.ir.types import TensorSpec
from thinflow.ops import registry
from thinflow.ops.registry import OpDef

Specs = tuple[TensorSpec, ...]

MAX_RESULTS = 1 << 16
"""Results remembered; a graph without repetition gains nothing from more."""


class RuleResults:
    """Results of shape rules by op, attributes that the rule reads, and input specs.

    A rule sees nothing else, so the same again gives the same. Inputs are told apart by identity, which is
    cheap: equal results are one object, so nodes in a row soon have the very same inputs.
    """

    def __init__(self) -> None:
        # With each result its inputs: as long as they live, no other spec has their identity.
        self._results: dict[Hashable, tuple[Specs, Sequence[TensorSpec]]] = {}
        self._specs: dict[TensorSpec, TensorSpec] = {}
        self._read: dict[type[OpDef], tuple[str, ...]] = {}

    def of(
        self, definition: type[OpDef], inputs: Sequence[TensorSpec], attrs: Mapping[str, Any]
    ) -> tuple[TensorSpec, ...]:
        """As `registry.call_infer`, which raises what the rule raises; failures are not remembered."""
        read = self._read.get(definition)
        if read is None:
            rule = definition.infer
            read = self._read[definition] = () if rule is None else tuple(registry.signature(rule).attrs)
        key = (definition, *map(id, inputs), *map(attrs.get, read))
        try:
            known = self._results.get(key)
        except TypeError:  # an attribute that has no hash
            return registry.call_infer(definition, inputs, attrs)
        if known is not None:
            return known[0]
        found = registry.call_infer(definition, inputs, attrs)
        if len(self._results) < MAX_RESULTS:
            # Equal results as one object, since keys go by identity.
            found = tuple(self._specs.setdefault(spec, spec) for spec in found)
            self._results[key] = found, inputs
        return found
