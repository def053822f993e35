"""What a survey knows of one unit of a collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from thinflow.ir.brief import brief_repr

Kind = Literal["model", "weights", "unread", "broken", "failed", "archive", "other"]
"""`model` opens; `weights` are variables without a graph; `unread` is of a kind of trained network that is
not read here; `broken` looks like a model and does not open; on `failed` the look itself crashed or took too
long; `archive` was looked into; `other` is no trained network."""

MODELS: tuple[Kind, ...] = ("model", "weights", "unread", "broken", "failed")


@dataclass(frozen=True)
class Outcome:
    """Whether something can be done with a model.

    Attributes:
        works: whether it can.
        reason: why not, in one sentence; "" if it can.
        size_bytes: of the file that came of it; None if none did.
    """

    works: bool
    reason: str = ""
    size_bytes: int | None = None

    def data(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any] | None) -> Outcome | None:
        """What `data` made plain."""
        return None if data is None else cls(**data)


@brief_repr
@dataclass
class Entry:
    """One unit of a collection.

    Attributes:
        name: its path in the collection.
        kind: see `Kind`.
        what: what it is, with an article: "a LiteRT (.tflite) model".
        format: the format's name, of what was recognised; "" if nothing was.
        size_bytes: of its files together.
        reason: why it does not open; "" if it does.
        maker: what wrote it, and which version, as far as the file says; "".
        inputs, outputs: name -> type and shape, as text.
        ops: op -> count, the most frequent first.
        nodes: of the graph.
        parameters: elements of all constants.
        flops, macs: of a run; None if no size is known.
        runs: whether a run on made-up inputs gives numbers; None if that was not tried.
        converts: name of a target -> whether it can be written; empty if that was not tried.
        findings: code of a rule of the linter -> (severity, sentence); None if it did not look.
        same_as: name of the first of those with the same bytes; "" for the first itself.
        same_weights: names of others with the same weights under another name or in another format.
        like: names of others that share most of their weights -> the share, 0 to 1.
        seconds: that the look took.
    """

    name: str
    kind: Kind
    what: str
    format: str = ""
    size_bytes: int = 0
    reason: str = ""
    maker: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    parameters: int = 0
    flops: int | None = None
    macs: int | None = None
    runs: Outcome | None = None
    converts: dict[str, Outcome] = field(default_factory=dict)
    findings: dict[str, tuple[str, str]] | None = None
    same_as: str = ""
    same_weights: list[str] = field(default_factory=list)
    like: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_model(self) -> bool:
        """Whether it is a trained network or a part of one, sound or not."""
        return self.kind in MODELS

    @property
    def problem(self) -> str:
        """What it is and why it does not open."""
        # Many a reason says what it is.
        if not self.reason or self.what in self.reason:
            return self.reason or self.what
        return f"{self.what}; {self.reason}"

    @property
    def warnings(self) -> list[str]:
        """Codes of what the linter warns of."""
        found = self.findings or {}
        return [code for code, (severity, _) in found.items() if code and severity != "info"]

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "kind": self.kind,
            "what": self.what,
            "format": self.format,
            "size_bytes": self.size_bytes,
            "reason": self.reason,
            "maker": self.maker,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "nodes": self.nodes,
            "ops": self.ops,
            "parameters": self.parameters,
            "flops": self.flops,
            "macs": self.macs,
            "runs": self.runs.data() if self.runs is not None else None,
            "converts": {name: outcome.data() for name, outcome in self.converts.items()},
            "findings": None
            if self.findings is None
            else {code: list(found) for code, found in self.findings.items()},
            "same_as": self.same_as,
            "same_weights": self.same_weights,
            "like": self.like,
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Entry:
        """What `data` made plain.

        Raises:
            TypeError: it is none.
        """
        findings = data["findings"]
        return cls(
            **dict(data)
            | {
                "runs": Outcome.of_data(data["runs"]),
                "converts": {name: Outcome(**one) for name, one in data["converts"].items()},
                "findings": None
                if findings is None
                else {code: (severity, told) for code, (severity, told) in findings.items()},
            }
        )


@dataclass(frozen=True)
class Looked:
    """What the look at a unit brings: the entry, and what it is compared with others by.

    Attributes:
        entry: without what only the collection as a whole tells.
        content: digest of its files.
        weights: digest of a weight's numbers, whatever their order -> its bytes, of all such weights
            together.
        archive: whether it is an archive to be looked into.
    """

    entry: Entry
    content: str
    weights: Mapping[str, int] = field(default_factory=dict)
    archive: bool = False

    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        entry = self.entry.data()
        return {"entry": entry, "content": self.content, "weights": self.weights, "archive": self.archive}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Looked:
        """What `data` made plain.

        Raises:
            TypeError, KeyError, ValueError: it is none.
        """
        return cls(Entry.of_data(data["entry"]), data["content"], data["weights"], data["archive"])
