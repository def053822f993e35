"""Documents for the explorer's page, made without any model."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.pages import shell

OP, INPUT, OUTPUT, CONSTANT = range(4)


@dataclass
class Strings:
    """Every text once."""

    found: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.found.setdefault(text, len(self.found))


class GraphMaker:
    """Columns of one graph, filled node by node; scopes come from names."""

    def __init__(self, strings: Strings, label: str) -> None:
        self.text = strings
        self.label = label
        self.places: dict[str, int] = {}
        self.scope_of = {"": 0}
        none = self.text("")
        self.scopes: dict[str, list[int]] = {
            "name": [none],
            "parent": [-1],
            "kind": [0],
            "repeats": [1],
            "caption": [none],
        }
        columns = ("name", "op", "scope", "kind", "attributes", "outputs")
        self.nodes: dict[str, Any] = {column: [] for column in columns}
        self.nodes |= {"documentation": {}, "quantization": {}, "remarks": {}}
        self.edges: dict[str, list[int]] = {"from": [], "port": [], "to": [], "input": []}
        self.constants: list[dict[str, Any]] = []
        self.overlays: list[dict[str, Any]] = []
        self.facts = [["format", "GraphDef"], ["made by", "a test"]]

    def scope(self, name: str) -> int:
        if name not in self.scope_of:
            parent, _, last = name.rpartition("/")
            above = self.scope(parent)
            self.scope_of[name] = len(self.scopes["name"])
            row = {
                "name": self.text(last),
                "parent": above,
                "kind": 0,
                "repeats": 1,
                "caption": self.text(""),
            }
            for column, value in row.items():
                self.scopes[column].append(value)
        return self.scope_of[name]

    def node(
        self,
        op: str,
        name: str,
        inputs: list[str] | None = None,
        *,
        kind: int = OP,
        dtype: str = "float32",
        shape: str | None = "1,8,8,16",
        attributes: dict[str, str] | None = None,
        quantization: str = "",
    ) -> str:
        """Adds a node; inputs are names, "^name" for a control edge."""
        place = self.places[name] = len(self.nodes["name"])
        outputs = [] if shape is None else [self.text(dtype), self.text(shape)]
        flat = [self.text(word) for pair in (attributes or {}).items() for word in pair]
        values: dict[str, Any] = {
            "name": self.text(name),
            "op": self.text(op),
            "scope": self.scope(name.rpartition("/")[0]),
            "kind": kind,
            "attributes": flat,
            "outputs": outputs,
        }
        for column, value in values.items():
            self.nodes[column].append(value)
        if quantization:
            self.nodes["quantization"][place] = [self.text(quantization)]
        for number, source in enumerate(inputs or []):
            self.edge(source, name, number)
        return name

    def edge(self, source: str, target: str, number: int = 0) -> None:
        row = (
            self.places[source.lstrip("^")],
            -1 if source.startswith("^") else 0,
            self.places[target],
            number,
        )
        for column, value in zip(self.edges, row, strict=True):
            self.edges[column].append(value)

    def constant(self, name: str, shape: str = "3,3,16,16", **facts: Any) -> str:
        self.node("Const", name, kind=CONSTANT, shape=shape)
        known = {"dtype": self.text("float32"), "shape": self.text(shape), "bytes": 9216}
        self.constants.append({"node": self.places[name], **known, **facts})
        return name

    def overlay(self, key: str, label: str, values: dict[str, float], **facts: Any) -> None:
        column = [None] * len(self.nodes["name"])
        for name, value in values.items():
            column[self.places[name]] = value  # type: ignore[call-overload]
        about = f"{label}, as a test made it up."
        self.overlays.append({"id": key, "label": label, "about": about, "values": column, **facts})

    def done(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "facts": self.facts,
            "nodes": self.nodes,
            "scopes": self.scopes,
            "edges": self.edges,
            "constants": self.constants,
            "overlays": self.overlays,
        }


def document(*makers: GraphMaker, title: str = "made up", **more: Any) -> dict[str, Any]:
    strings = list(makers[0].text.found) if makers else []
    graphs = [maker.done() for maker in makers]
    return {"version": 1, "title": title, "strings": strings, "graphs": graphs, "notes": [], **more}


def write(folder: Path, data: dict[str, Any], name: str = "page.html") -> Path:
    path = folder / name
    path.write_bytes(shell.page("explorer", data["title"], data))
    return path


FILTERS = {
    "width": 24,
    "height": 12,
    "channels": 1,
    "pixels": base64.b64encode(bytes(i * 7 % 256 for i in range(24 * 12))).decode(),
}
STATISTICS = {
    "min": -0.4,
    "max": 0.5,
    "mean": 0.01,
    "zeros": 0.125,
    "nonFinite": 2,
    "histogram": [1, 4, 9, 30, 44, 32, 12, 5, 0, 1],
    "picture": FILTERS,
    "values": "[0.1, -0.25, 0.33, ...]",
}


def small(strings: Strings | None = None, label: str = "small.pb", *, changed: bool = False) -> GraphMaker:
    """An input, three blocks with a residual edge, pooling, a quantized head and an output."""
    g = GraphMaker(strings or Strings(), label)
    last = g.node("Placeholder", "image", kind=INPUT, shape="1,32,32,3")
    for number in (1, 2, 3):
        scope = f"net/block{number}"
        entry = last
        for part in ("a", "b"):
            filters = g.constant(f"{scope}/{part}/weights", **STATISTICS)
            read = g.node("Identity", f"{scope}/{part}/weights/read", [filters], shape="3,3,16,16")
            padding = "VALID" if changed and number == 2 else "SAME"
            options = {"padding": padding, "strides": "[1, 1, 1, 1]", "data_format": "NHWC"}
            conv = g.node("Conv2D", f"{scope}/{part}/Conv2D", [last, read], attributes=options)
            bias = g.constant(f"{scope}/{part}/biases", "16")
            last = g.node("BiasAdd", f"{scope}/{part}/BiasAdd", [conv, bias])
            if not (changed and number == 3):
                last = g.node("Relu", f"{scope}/{part}/Relu", [last])
        if number > 1:
            last = g.node("Add", f"{scope}/add", [last, entry])
    axes = g.constant("net/axes", "2", values="[1, 2]")
    last = g.node("Mean", "net/pool", [last, axes], shape="1,16")
    weights = g.constant("head/weights", "16,10")
    quantized = "scale 0.0235, zero_point -128"
    last = g.node(
        "MatMul", "head/MatMul", [last, weights], dtype="int8", shape="1,10", quantization=quantized
    )
    last = g.node("Softmax", "head/Softmax", [last], shape="1,10")
    g.node("Identity", "probabilities", [last], kind=OUTPUT, shape="1,10")
    g.node("NoOp", "init", ["^head/Softmax"], shape=None)
    g.nodes["documentation"][g.text("Conv2D")] = (
        "https://www.tensorflow.org/api_docs/python/tf/raw_ops/Conv2D"
    )
    g.nodes["remarks"][g.places["head/MatMul"]] = [g.text("not folded: its weights are shared")]
    return g


def measured(g: GraphMaker) -> GraphMaker:
    """Adds an overlay of each kind."""
    ops = [name for name, place in g.places.items() if g.nodes["kind"][place] == OP]
    g.overlay(
        "time",
        "Time",
        {n: 0.1 * i * i for i, n in enumerate(ops)},
        kind="amount",
        unit="ms",
        worse="high",
        adds=True,
    )
    g.overlay("error", "Error", {n: 60 - i for i, n in enumerate(ops)}, kind="amount", unit="dB", worse="low")
    engines = [{"label": "litert", "tone": "good"}, {"label": "reference", "tone": "warn"}]
    reasons = {g.places["net/pool"]: g.text("LiteRT has no Mean of this rank")}
    where = {n: int(n == "net/pool") for n in ops}
    g.overlay("placement", "Placement", where, kind="category", categories=engines, reasons=reasons)
    return g


def compared() -> dict[str, Any]:
    """The small graph and one with other paddings and fewer ops."""
    strings = Strings()
    one, two = small(strings, "before.pb"), small(strings, "after.pb", changed=True)
    names = [name for name in one.places if name in two.places]
    differs = [int(name.endswith("Conv2D") and "block2" in name) for name in names]
    line = strings("padding: SAME in the first, VALID in the second")
    return document(
        one,
        two,
        title="before.pb and after.pb",
        comparison={
            "pairs": [place for name in names for place in (one.places[name], two.places[name])],
            "differs": differs,
            "differences": {i: [line] for i, differ in enumerate(differs) if differ},
        },
    )


def large(nodes: int = 5000, *, per_block: int = 25) -> GraphMaker:
    """Stages of blocks of ops with residual edges and branches, two levels deep."""
    g = GraphMaker(Strings(), "large.pb")
    last = g.node("Placeholder", "image", kind=INPUT, shape="1,224,224,3")
    ops = ("Conv2D", "BiasAdd", "FusedBatchNormV3", "Relu", "Add")
    block = 0
    while len(g.nodes["name"]) + per_block < nodes:
        scope = f"stage{block // 20}/block{block}"
        entry, branches = last, []
        for branch in range(2):
            last = entry
            for i in range((per_block - 1) // 4):
                weights = g.constant(f"{scope}/branch{branch}/weights{i}")
                last = g.node(ops[i % 5], f"{scope}/branch{branch}/op{i}", [last, weights])
            branches.append(last)
        last = g.node("ConcatV2", f"{scope}/concat", [*branches, entry])
        block += 1
    g.node("Identity", "output", [last], kind=OUTPUT)
    return g


def flat(nodes: int) -> GraphMaker:
    """One scope with very many children."""
    g = GraphMaker(Strings(), "flat.pb")
    last = g.node("Placeholder", "x", kind=INPUT)
    for i in range(nodes - 1):
        last = g.node("Relu", f"relu_{i}", [last])
    return g
