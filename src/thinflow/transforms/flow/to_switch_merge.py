"""If and Case as Switch and Merge: what a branch reads goes through Switch, what it gives through Merge.

Of the two outputs of a Switch only one is alive; what reads the other does not run, and Merge takes what is
alive. Source: TensorFlow's white paper "Implementation of Control Flow in TensorFlow".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.function import Function
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, INT32, DType, TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.flow.bodies import Library, Place, effects_of, refuse_vague_condition, types_in

_SIDES = ("then_branch", "else_branch")
MAX_BRANCHES = 100
"""Each branch of a Case is one level of Switches inside those before it."""


class Branches:
    """A node that calls one of several functions; everything is checked before the first edit.

    Raises:
        Refuse: it has to stay.
    """

    def __init__(self, call: Node, library: Library, count: int) -> None:
        if not call.inputs:
            raise Refuse("it has no inputs")
        self.call = call
        self.decision, *self.arguments = call.inputs
        listed = call.attrs.get("branches") if has(call.op, Trait.CASE) else None
        called = listed if isinstance(listed, tuple) else tuple(call.attrs.get(side) for side in _SIDES)
        if not 1 <= len(called) <= MAX_BRANCHES:
            raise Refuse(f"it has {len(called)} branches, not 1 to {MAX_BRANCHES}")
        self.types = types_in(call, "Tin", self.arguments)
        specs = [TensorSpec(t, v.shape) for t, v in zip(self.types, self.arguments, strict=True)]
        self.bodies = [library.body(f, specs, count) for f in called]
        self.given = types_in(call, "Tout", [call.output(i) for i in range(count)])
        self.has_effects = any(effects_of(f) for f in self.bodies)
        if has(call.op, Trait.IF):
            refuse_vague_condition(self.decision)

    def put(self, place: Place) -> tuple[list[Value], Node]:
        """The results of the node, and a node that runs after all that its branches do."""
        # A call runs when all its inputs are there; the effects of a branch must not come before that.
        wait = [*self.call.control_inputs, *(v.node for v in self.arguments if self.has_effects)]
        if has(self.call.op, Trait.CASE):
            # With one branch there is nothing to decide.
            if len(self.bodies) == 1:
                start = place.add("NoOp", (), "start", wait=[*wait, self.decision.node])
                return self._straight(place, start)
            index = place.add("Identity", [self.decision], "index", {"T": INT32}, wait).output()
            return self._one_of(place, index, self.arguments, self.bodies, 0)
        predicate = place.truth(self.decision, "pred_id", wait)
        then, otherwise = self.bodies
        return self._either(place, predicate, None, self.arguments, [otherwise], then, 0)

    def _straight(self, place: Place, start: Node) -> tuple[list[Value], Node]:
        attrs = [{"T": t} for t in self.types]
        given = [
            place.add("Identity", [v], "input", a, [start])
            for v, a in zip(self.arguments, attrs, strict=True)
        ]
        results, effects = place.body(self.bodies[0], [n.output() for n in given], start)
        return results, place.add("NoOp", (), "done", wait=[start, *effects])

    def _one_of(
        self, place: Place, index: Value, arguments: Sequence[Value], bodies: Sequence[Function], number: int
    ) -> tuple[list[Value], Node]:
        """The first of the bodies if the index is `number`, else one of the others."""
        own = place.constant(np.array(number, np.int32), f"number{number}", index.node)
        chosen = place.add("Equal", [index, own], f"is{number}", {"T": INT32}).output()
        return self._either(place, chosen, index, arguments, bodies[1:], bodies[0], number)

    def _either(
        self,
        place: Place,
        predicate: Value,
        index: Value | None,
        arguments: Sequence[Value],
        otherwise: Sequence[Function],
        then: Function,
        number: int,
    ) -> tuple[list[Value], Node]:
        # The predicate through its own Switch: something on either side that what reads nothing can wait for.
        pivot = place.add("Switch", [predicate, predicate], "Switch", {"T": BOOL})
        sides = [
            place.add("Identity", [pivot.output(i)], name, {"T": BOOL})
            for i, name in enumerate(("switch_f", "switch_t"))
        ]
        switches = [
            place.add("Switch", [v, predicate], f"{v.node.name.rpartition('/')[2]}/Switch", {"T": t})
            for v, t in zip(arguments, self.types, strict=True)
        ]
        yes, on_yes = place.body(then, [s.output(1) for s in switches], sides[1])
        rest = [s.output(0) for s in switches]
        if len(otherwise) == 1:
            no, on_no = place.body(otherwise[0], rest, sides[0])
        else:
            assert index is not None
            # Inner Switches run on the side of the others only, so the index has to come through one as well.
            passed = place.add("Switch", [index, predicate], "index/Switch", {"T": INT32})
            again = place.add("Identity", [passed.output(0)], "index", {"T": INT32})
            no, last = self._one_of(place, again.output(), rest, otherwise, number + 1)
            on_no = [last]
        merges = [self._merged(place, a, b, t) for a, b, t in zip(no, yes, self.given, strict=True)]
        # Whoever waited for the call waits for the side that runs, its effects included.
        ends = [
            place.add("Identity", [side.output()], "done", {"T": BOOL}, effects).output()
            for side, effects in zip(sides, (on_no, on_yes), strict=True)
        ]
        return merges, place.add("Merge", ends, "done", {"T": BOOL, "N": 2})

    @staticmethod
    def _merged(place: Place, no: Value, yes: Value, element: DType) -> Value:
        return place.add("Merge", [no, yes], "Merge", {"T": element, "N": 2}).output()
