"""Loops and branches as TensorFlow 1 wrote them: While as a frame, If and Case as Switch and Merge.

Enter leads into a frame, Merge joins its iterations, LoopCond decides, Switch leads on or out to Exit. What a
branch reads goes through Switch, what it gives through Merge: of the two outputs of a Switch only one is
alive; what reads the other does not run, and Merge takes what is alive.

Source: TensorFlow's white paper "Implementation of Control Flow in TensorFlow".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.function import Function
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, INT32, DType, TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.flow.bodies import (
    CallableBodies,
    Place,
    effects_of,
    refuse_vague_condition,
    types_in,
)


class Frame:
    """A While on its way into a frame; everything is checked before the first edit.

    Args:
        call: the node.
        library: the functions.
        frames: names of the frames there are.

    Raises:
        Refuse: it has to stay.
    """

    def __init__(self, call: Node, library: CallableBodies, frames: Collection[str]) -> None:
        count = len(call.inputs)
        if not count:
            raise Refuse("it has no variables")
        self.call, self.initial = call, call.inputs
        self.types = types_in(call, "T", self.initial)
        specs = [TensorSpec(t) for t in self.types]
        self.condition = library.body(call.attrs.get("cond"), specs, 1)
        self.body = library.body(call.attrs.get("body"), specs, count)
        pairs = zip(self.body.inputs, self.body.outputs, strict=True)
        self.stays = [given is result for given, result in pairs]
        if all(self.stays):
            self.stays[0] = False  # something has to go round
        self.has_effects = any(effects_of(f) for f in (self.condition, self.body))
        self.name = f"{call.name}/while_context"
        # Frames are known by their names alone: two of one name would be one loop.
        while self.name in frames:
            self.name += "_"
        self.decision = self.condition.outputs[0].spec
        if self.decision.dtype is not None:
            refuse_vague_condition(self.condition.outputs[0])

    def put(self, place: Place) -> tuple[list[Value], Node]:
        """The results of the node, and a node that runs when the loop is over."""
        enters = [self._enter(place, number) for number in range(len(self.initial))]
        moving = [i for i, stays in enumerate(self.stays) if not stays]
        merges = {i: self._merge(place, enters[i], self.types[i]) for i in moving}
        first = merges[moving[0]]
        heads = [merges[i].output() if i in merges else e.output() for i, e in enumerate(enters)]
        # Constant Enters are there before any iteration: what reads nothing else waits for one that iterates.
        idle = {e for i, e in enumerate(enters) if i not in merges}
        (decision,), before = place.body(self.condition, heads, first, idle)
        going_on = self._decided(place, decision, before)
        switches = {
            i: place.add("Switch", [m.output(), going_on], "Switch", self._type(i)) for i, m in merges.items()
        }
        # Behind the Switches: these nodes run in iterations of the body only, unlike the Switches themselves.
        inside = {
            i: place.add("Identity", [s.output(1)], "Identity", self._type(i)) for i, s in switches.items()
        }
        given = [inside[i].output() if i in inside else e.output() for i, e in enumerate(enters)]
        results, effects = place.body(self.body, given, inside[moving[0]], idle)
        for i, merge in merges.items():
            # The next iteration begins once the effects of this one are done.
            following = place.add("NextIteration", [results[i]], "NextIteration", self._type(i), effects)
            merge.set_input(1, following)
        exits = {i: place.add("Exit", [s.output(0)], "Exit", self._type(i)) for i, s in switches.items()}
        # What stays the same is what came in.
        values = [exits[i].output() if i in exits else v for i, v in enumerate(self.initial)]
        return values, place.add("NoOp", (), "done", wait=list(exits.values()))

    def _type(self, number: int) -> dict[str, DType]:
        return {"T": self.types[number]}

    def _enter(self, place: Place, number: int) -> Node:
        attrs: dict[str, Attr] = {
            "T": self.types[number],
            "frame_name": self.name.encode(),
            "is_constant": self.stays[number],
            "parallel_iterations": self.call.attrs.get("parallel_iterations", 10),
        }
        # A call runs when all its inputs are there; the effects of an iteration must not come before that.
        wait = [*self.call.control_inputs, *(v.node for v in self.initial if self.has_effects)]
        enter = place.add("Enter", [self.initial[number]], "Enter", attrs, wait)
        enter.output().spec = TensorSpec(self.types[number])
        return enter

    @staticmethod
    def _merge(place: Place, enter: Node, element: DType) -> Node:
        # The second input is the way back, which does not exist yet: the body reads the Merge first.
        return place.add("Merge", [enter.output(), enter.output()], "Merge", {"T": element, "N": 2})

    def _decided(self, place: Place, decision: Value, before: Sequence[Node]) -> Value:
        # LoopCond takes a scalar bool.
        if self.decision.dtype not in (BOOL, None) or self.decision.shape:
            decision.spec = self.decision
            decision = place.truth(decision, "decision")
        return place.add("LoopCond", [decision], "LoopCond", wait=before).output()


# ---- If and Case


_SIDES = ("then_branch", "else_branch")
MAX_BRANCHES = 100
"""Each branch of a Case is one level of Switches inside those before it."""


class Branches:
    """A node that calls one of several functions; everything is checked before the first edit.

    Raises:
        Refuse: it has to stay.
    """

    def __init__(self, call: Node, library: CallableBodies, count: int) -> None:
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
