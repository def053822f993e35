"""The coverage of a model by a file: all of it, all behind a front that decodes bytes, or only a part.

A file that gives all of the model's outputs and takes the model's inputs is the model. So is one that begins
behind what turns a WAV file, a JPEG, text or records into numbers, which is the app's business on a phone.
Anything else is a part: it must not be taken for the model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.errors import PartialModel
from thinflow.formats.foreign import PARTIAL
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import STRING
from thinflow.lower.lowering import needed_nodes
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.optimize.core import BESIDE, Core, calls_inside

WHOLE, DECODED_FRONT, PART = "whole", "decoded front", "part"
MARK = "_part"
"""Ends the stem of a file that holds a part."""
_SHOWN = 3
_MOVING = (
    Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.REARRANGES | Trait.CAST | Trait.SHAPE_OF
    | Trait.CONCAT | Trait.STACK | Trait.SPLIT | Trait.PLACEHOLDER
)  # fmt: skip
"""Traits of ops that move numbers and make none: a front that decodes may end in them."""


@dataclass(frozen=True)
class Obstacle:
    """The first node that keeps a file from holding more, and why."""

    node: str
    why: str

    @property
    def because(self) -> str:
        """The end of a sentence."""
        return f"because of {self.node}: {self.why}" if self.node else f"because {self.why}"


@brief_repr
@dataclass(frozen=True)
class Coverage:
    """The coverage of a model by a file, and what keeps it from being more.

    Attributes:
        kind: "whole", "decoded front" or "part".
        runtime: whose form it is: "LiteRT" or "ONNX".
        missing: the model's outputs that it does not give, by name -> the first node in the way, and why.
        starts_at: its inputs that are none of the model's.
        front: what is left out in front where that computes numbers; None otherwise.
        decoded: what the app decodes, in words; "" if the file begins where the model does.
        outputs: how many the model has.
    """

    kind: str
    runtime: str
    missing: dict[str, Obstacle]
    starts_at: tuple[str, ...] = ()
    front: Obstacle | None = None
    decoded: str = ""
    outputs: int = 0

    @property
    def is_part(self) -> bool:
        return self.kind == PART

    @property
    def note(self) -> str:
        """The note that a verdict has of a whole model: what the app does; "" if it does nothing."""
        if self.kind != DECODED_FRONT:
            return ""
        return f"the app {self._verb} {self.decoded} and feeds {_listed(self.starts_at)}"

    @property
    def _verb(self) -> str:
        return "prepares" if self.decoded == "the text" else "decodes"

    @property
    def sentence(self) -> str:
        """A sentence on what is missing from a part, and why; "" if nothing is."""
        if not self.is_part:
            return ""
        if self.missing:
            return f"{self._missing_outputs()}, {next(iter(self.missing.values())).because}"
        because = "" if self.front is None else f", {self.front.because}"
        return f"it begins at {_quoted(self.starts_at)}, not where the model does{because}"

    def _missing_outputs(self) -> str:
        if self.outputs == 1:
            return f"the model's output {_quoted(self.missing)} is not in it"
        count, are = len(self.missing), "is" if len(self.missing) == 1 else "are"
        return f"{count} of the model's {self.outputs} outputs {are} not in it ({_quoted(self.missing)})"

    @property
    def description(self) -> str:
        """The description that the file has of itself."""
        if self.is_part:
            return f"{PARTIAL}a part of a model, made by thinflow; {self.sentence}"
        return f"made by thinflow; {self.note}" if self.note else "made by thinflow"

    def stem(self, stem: str) -> str:
        """The stem of a file with this much of a model: that of a part says so."""
        return marked(stem) if self.is_part else stem

    def path(self, path: str) -> str:
        """The same for the path of a file."""
        target = Path(path)
        # Before the first dot, so that names such as model.v1.tflite keep all of their suffixes.
        stem, dot, suffixes = target.name.partition(".")
        return str(target.with_name(marked(stem) + dot + suffixes)) if self.is_part else path

    def verdict(self, path: str, asked: str) -> str:
        """One sentence on a file that is a part, and was asked for under a name."""
        name, wanted = Path(path).name, Path(asked).name
        not_there = "" if name == wanted else f", and {wanted} was not written"
        return f"{PARTIAL}{name} holds only a part of the model{not_there}: {self.sentence}"

    def require_whole(self) -> None:
        """Refuse a part.

        Raises:
            PartialModel: tells what is missing.
        """
        if not self.is_part:
            return
        obstacle = next(iter(self.missing.values()), self.front)
        raise PartialModel(
            f"{self.runtime} can hold only a part of the model: {self.sentence}",
            hint="without strict the part is written under a name that says so; "
            f"thinflow's own engine runs the whole model{_way_out(obstacle)}",
        )

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "kind": self.kind,
            "runtime": self.runtime,
            "missing_outputs": [
                {"output": name, "node": o.node, "why": o.why} for name, o in self.missing.items()
            ],
            "starts_at": list(self.starts_at),
            "front": None if self.front is None else {"node": self.front.node, "why": self.front.why},
            "app_decodes": self.decoded,
        }


def _way_out(obstacle: Obstacle | None) -> str:
    return "" if obstacle is None or "text" not in obstacle.why else ", text included"


def whole(core: Core) -> Coverage:
    """The coverage of a core's graph by a file that holds all of it, the core and what is around it."""
    return Coverage(WHOLE, "TensorFlow", {}, outputs=len(core.graph.outputs))


def coverage_of(core: Core) -> Coverage:
    """The coverage of its graph by a core."""
    wanted = core.graph.outputs
    missing = {v.name: _in_the_way(core, [v]) for v in wanted if v not in core.outputs}
    ahead = [v for v in core.inputs if v not in core.graph.inputs]
    starts_at = tuple(v.name for v in ahead)
    common: dict[str, Any] = {"runtime": core.runtime, "missing": missing, "starts_at": starts_at}
    front = _Front(core, ahead)
    numeric = front.obstacle()
    # An output that is not given, or a front that computes: either makes a part of it.
    if missing or numeric is not None:
        return Coverage(PART, **common, front=numeric, outputs=len(wanted))
    if ahead:
        return Coverage(DECODED_FRONT, **common, decoded=front.decoded(), outputs=len(wanted))
    return Coverage(WHOLE, **common, outputs=len(wanted))


class _Front:
    """The nodes before a core.

    Attributes:
        ahead: the core's inputs that it computes.
        nodes: in running order.
        from_bytes: those whose results come of bytes that are fed.
    """

    def __init__(self, core: Core, ahead: Sequence[Value]) -> None:
        self.core, self.ahead = core, ahead
        fed = core.graph.inputs
        self.nodes = needed_nodes(ahead, fed)
        varying: set[Node] = set()
        self.from_bytes: set[Node] = set()
        for node in self.nodes:
            # What depends on no input is a constant in all but name, and no front.
            if any(v in fed or v.node in varying for v in node.inputs):
                varying.add(node)
            if handles_text(node) or any(v.node in self.from_bytes for v in node.inputs):
                self.from_bytes.add(node)
        self.nodes = [n for n in self.nodes if n in varying]

    def obstacle(self) -> Obstacle | None:
        """The first thing in front that is more than decoding; None if there is none."""
        computing = [n for n in self.nodes if not self._only_decodes(n)]
        # It decodes only if all that goes into the core comes of bytes: numbers that are fed and moved are
        # none.
        if not computing and all(v.node in self.from_bytes for v in self.ahead):
            return None
        return _first(self.core, computing) or _first(self.core, self.nodes) or _UNKNOWN

    def _only_decodes(self, node: Node) -> bool:
        """True if it makes numbers of bytes, moves numbers, or works out where they go."""
        # A loop over records decodes only if nothing in its body computes.
        if any(not _makes_no_floats(n) for n in calls_inside(node)):
            return False
        return handles_text(node) or (node in self.from_bytes and _makes_no_floats(node))

    def decoded(self) -> str:
        """The things that the app decodes, in words."""
        found = [m.op for n in self.nodes for m in (n, *calls_inside(n))]
        decoded = (definition.decodes for op in found if (definition := registry.find(op)) is not None)
        words = dict.fromkeys(f"the {what.removeprefix('a ')}" for what in decoded if what)
        return _joined(list(words)) or "the text"


_UNKNOWN = Obstacle("", "what stands before it is not part of it")


def handles_text(node: Node) -> bool:
    """True if strings go in or out."""
    return any(value.dtype is STRING for value in (*node.inputs, *node.outputs))


def _makes_no_floats(node: Node) -> bool:
    # A sparse tensor made dense is moved as well.
    if has(node.op, _MOVING) or node.op == "SparseToDense" or handles_text(node) or node.tensor is not None:
        return True
    return not any(v.dtype is not None and v.dtype.is_floating for v in node.outputs)


def _in_the_way(core: Core, values: Sequence[Value]) -> Obstacle:
    """The first node that keeps values out of a core."""
    needed = needed_nodes(values, core.outputs)
    found = _first(core, needed)
    return found or Obstacle("", f"{core.runtime} files cannot give it")


def _first(core: Core, nodes: Sequence[Node]) -> Obstacle | None:
    """The first of some nodes that is left out for a reason of its own, else the first that is left out."""
    left = [(n, core.outside[n]) for n in nodes if n in core.outside]
    # A node beside another that cannot run is no reason: the one with a problem of its own is.
    own = (pair for pair in left if not pair[1].startswith(BESIDE))
    pair = next(own, left[0] if left else None)
    return None if pair is None else Obstacle(pair[0].where, pair[1])


def marked(stem: str) -> str:
    """A file's stem that says that the file holds a part."""
    return stem if says_part(stem) else stem + MARK


def require_name(coverage: Coverage, path: str | os.PathLike[str]) -> None:
    """Refuse to write a part under a name that does not say so.

    Raises:
        PartialModel: it is one.
    """
    name = os.fspath(path)
    if coverage.path(name) != name:
        raise PartialModel(
            f"this is only a part of the model: {coverage.sentence}",
            name,
            hint=f"name it {Path(coverage.path(name)).name}, so that nobody takes it for the model",
        )


def says_part(stem: str) -> bool:
    """True if a file's stem says that it holds a part."""
    # "_part_" within, as in model_part_int8.
    return stem == MARK[1:] or stem.endswith(MARK) or f"{MARK}_" in stem


def _quoted(names: Iterable[str]) -> str:
    return _listed([f"'{n}'" for n in names])


def _listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
