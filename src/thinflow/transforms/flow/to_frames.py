"""While as a frame: Enter leads in, Merge joins the turns, LoopCond decides, Switch leads on or out to Exit.

Source: TensorFlow's white paper "Implementation of Control Flow in TensorFlow".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, DType, TensorSpec
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.flow.bodies import Library, Place, effects_of, refuse_vague_condition, types_in


class Frame:
    """A While on its way into a frame; everything is checked before the first edit.

    Args:
        call: the node.
        library: the functions.
        frames: names of the frames there are.

    Raises:
        Refuse: it has to stay.
    """

    def __init__(self, call: Node, library: Library, frames: Collection[str]) -> None:
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
        # Constant Enters are there without a turn: what reads nothing else has to wait for one that turns.
        idle = {e for i, e in enumerate(enters) if i not in merges}
        (decision,), before = place.body(self.condition, heads, first, idle)
        going_on = self._decided(place, decision, before)
        switches = {
            i: place.add("Switch", [m.output(), going_on], "Switch", self._type(i)) for i, m in merges.items()
        }
        # Behind the Switches: these nodes run in turns of the body only, unlike the Switches themselves.
        inside = {
            i: place.add("Identity", [s.output(1)], "Identity", self._type(i)) for i, s in switches.items()
        }
        given = [inside[i].output() if i in inside else e.output() for i, e in enumerate(enters)]
        results, effects = place.body(self.body, given, inside[moving[0]], idle)
        for i, merge in merges.items():
            # The next turn begins once the effects of this one are done.
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
        # A call runs when all its inputs are there; the effects of a turn must not come before that.
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
