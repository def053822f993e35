"""Report of `thinflow diff`: one verdict, then the differences by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from thinflow.compare.diff.changes import Changes, find_changes
from thinflow.compare.diff.explain import KINDS, Explanation, explain, unexplained
from thinflow.compare.diff.report_page import diff_document
from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, paused_gc
from thinflow.ir.notebook import text_html
from thinflow.pages.report import ReportDocument
from thinflow.pages.shell import Paged, save_document
from thinflow.typing import FilePath

if TYPE_CHECKING:
    from thinflow.compare.verification import Verification

SHOWN = 10
"""Lines per kind of difference in the text."""
_TITLES = {
    "op": "other op",
    "attribute": "other attributes",
    "input": "other inputs",
    "control": "other control inputs",
    "shape": "other shape",
    "dtype": "other type",
    "device": "other device",
    "name": "other name",
}


@brief_repr
@dataclass
class Diff(Paged):
    """Differences of two graphs.

    Attributes:
        a, b: the graphs.
        changes: all differences.
        explanation: those that rewrites account for.
        numbers: the comparison of their outputs; None if they were not run.
        note: why they were not, if they could not be.
    """

    a: Graph
    b: Graph
    changes: Changes
    explanation: Explanation
    numbers: Verification | None = None
    note: str = ""

    @property
    def is_equal(self) -> bool:
        """True if nothing at all differs, names and annotations of one node apart from its order."""
        c = self.changes
        return not (c.removed or c.added or c.changes or c.weights or c.functions)

    @property
    def only_in_a(self) -> list[Node]:
        """Nodes of the first graph that nothing in the second accounts for."""
        return unexplained(self.changes.removed, self.explanation.removed)

    @property
    def only_in_b(self) -> list[Node]:
        return unexplained(self.changes.added, self.explanation.added)

    @property
    def rewired(self) -> list[str]:
        """Inputs that lead to another kept node: no trace of something taken out or put in between."""
        going = {n.name for n in self.changes.removed}, {n.name for n in self.changes.added}
        found = []
        for change in self.changes.of("input"):
            before, _, after = change.text.rpartition(" -> ")
            # `input 0: a:1 -> b` taken apart again; ports do not count here.
            names = before.rpartition(": ")[2].partition(":")[0], after.partition(":")[0]
            if (
                names[0] not in going[0]
                and names[1] not in going[1]
                and not _same_up_to_order(self, change.a)
            ):
                found.append(f"{change.a}: {change.text}")
        return found

    @property
    def is_same_network(self) -> bool:
        """True if known rewrites lead from one to the other, and their outputs agree if they were run."""
        attributes = [c for c in self.changes.of("attribute") if not _is_form(c.text)]
        structure = self.only_in_a or self.only_in_b or self.rewired or attributes or self._strange_ops
        return not structure and not self.changes.functions and (self.numbers is None or self.numbers.ok)

    @property
    def _strange_ops(self) -> list[tuple[str, str]]:
        return [pair for pair in self.explanation.ops if _family(pair[0]) != _family(pair[1])]

    @property
    def verdict(self) -> str:
        """One line: what changed."""
        if self.is_equal:
            return "the same graph" + self._outcome()
        head = "same network" if self.is_same_network else "different networks"
        return "; ".join([head, *self._phrases()]) + self._outcome()

    def _phrases(self) -> list[str]:
        counts = {kind: self.explanation.count(kind) for kind in KINDS}
        said = [_fold_phrase(self.explanation, k) for k in ("batch_norms", "arithmetic") if counts[k]]
        if counts["constants"]:
            said.append(f"{_plural(counts['constants'], 'constant expression')} computed in advance")
        stored = len({n for n, k in self.explanation.added.items() if k == "stored" and n.op == "Dequantize"})
        if stored:
            said.append(f"{_plural(stored, 'weight')} stored in fewer bits")
        gone = [kind for kind in ("passing", "duplicates", "unused") if counts[kind]]
        said += [f"{_plural(counts[kind], KINDS[kind])} removed" for kind in gone]
        said += [f"{n} {x} became {y}" for (x, y), n in self.explanation.ops.most_common()]
        for nodes, where in ((self.only_in_a, "first"), (self.only_in_b, "second")):
            if nodes:
                said.append(f"{_plural(len(nodes), 'node')} only in the {where} ({_ops(nodes)})")
        if self.rewired:
            said.append(f"{_plural(len(self.rewired), 'input')} rewired")
        said += self._small_phrases()
        return said

    def _small_phrases(self) -> list[str]:
        said = []
        words = {"attribute": "attribute", "shape": "shape", "dtype": "type", "device": "device"}
        for kind, word in words.items():
            if found := self.changes.of(kind):
                said.append(f"{_plural(len(found), word)} differ{'s' if len(found) == 1 else ''}")
        weights = [w for w in self.changes.weights if not w.folded]
        if weights:
            gaps = [w.largest for w in weights if w.largest is not None]
            largest = f", largest {max(gaps):.3g}" if gaps else ""
            said.append(
                f"{_plural(len(weights), 'weight')} differ{'s' if len(weights) == 1 else ''}{largest}"
            )
        if renamed := self.changes.of("name"):
            said.append(f"{_plural(len(renamed), 'node')} renamed")
        if self.changes.functions:
            said.append(f"{_plural(len(self.changes.functions), 'difference')} in the functions")
        if not said and self.changes.of("control"):
            said.append(f"{_plural(len(self.changes.of('control')), 'node')} with other control inputs")
        return said

    def _outcome(self) -> str:
        if self.numbers is None:
            return ""
        if self.numbers.ok:
            return f"; outputs agree to {self.numbers.worst:.3g}"
        worst = max(self.numbers.outputs, key=lambda o: o.relative)
        return f"; outputs DIFFER by {worst.relative:.3g} in '{worst.name}'"

    def data(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "verdict": self.verdict,
            "equal": self.is_equal,
            "same_network": self.is_same_network,
            "nodes": [len(self.a), len(self.b)],
            "paired": len(self.changes.match.pairs),
            "explained": {kind: n for kind in KINDS if (n := self.explanation.count(kind))},
            "only_in_a": [{"name": n.name, "op": n.op} for n in self.only_in_a],
            "only_in_b": [{"name": n.name, "op": n.op} for n in self.only_in_b],
            "changes": [asdict(c) for c in self.changes.changes],
            "weights": [asdict(w) for w in self.changes.weights],
            "functions": self.changes.functions,
            "outputs": None if self.numbers is None else [
                {"name": o.name, "largest": o.largest, "relative": o.relative} for o in self.numbers.outputs
            ],
            "note": self.note,
        }  # fmt: skip

    def document(self, next_steps: Sequence[str] = ()) -> ReportDocument:
        """What the page shows, block by block; with commands to try."""
        return diff_document(self, _TITLES, next_steps)

    def save_html(self, path: FilePath, next_steps: Sequence[str] = ()) -> int:
        """Write the page, with commands to try; the bytes written.

        Raises:
            PagesUnavailable: the package was installed without the scripts of its pages.
            WriteError: it cannot be written.
        """
        return save_document(self.document(next_steps), path)

    def lines(self, *, everything: bool = False) -> list[str]:
        """The verdict, then every kind of difference; long lists are cut unless `everything`."""
        limit = 1 << 60 if everything else SHOWN
        pairs = len(self.changes.match.pairs)
        lines = [self.verdict, f"{len(self.a)} and {len(self.b)} nodes, {pairs} of them in both"]
        for title, nodes in (("only in the first", self.only_in_a), ("only in the second", self.only_in_b)):
            lines += _section(title, [f"{n.name} ({n.op})" for n in nodes], limit)
        going = list(self.explanation.removed.items())
        lines += _section("accounted for", [f"{n.name} ({n.op}): {KINDS[k]}" for n, k in going], limit)
        for kind, title in _TITLES.items():
            lines += _section(title, [f"{_who(c.a, c.b)}: {c.text}" for c in self.changes.of(kind)], limit)
        # Weights that cannot be compared, such as those of another shape, come first.
        ordered = sorted(self.changes.weights, key=lambda w: -(w.largest if w.largest is not None else 1e300))
        lines += _section("weights", [_weight_text(w) for w in ordered], limit)
        lines += _section("functions", self.changes.functions, limit)
        if self.numbers is not None:
            rows = [
                f"{o.name}: {o.largest:.3g} absolute, {o.relative:.3g} relative" for o in self.numbers.outputs
            ]
            lines += _section("outputs on made-up input", rows, limit)
        return [*lines, self.note] if self.note else lines

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.lines()))


def compare_graphs(a: Graph, b: Graph) -> Diff:
    """Differences of two graphs whose inputs, outputs and shapes are known, without running them."""
    with paused_gc():
        changes = find_changes(a, b)
        return Diff(a, b, changes, explain(a, b, changes))


def _family(op: str) -> str:
    """The op without its version: AddV2 adds as Add does."""
    return re.sub(r"V\d+\Z", "", op)


def _same_up_to_order(diff: Diff, name: str) -> bool:
    """True if a node reads the same twins, in another order that does not matter to it."""
    from thinflow.ops.traits import commutes

    node = diff.a.node(name)
    if not commutes(node.op, node.attrs_view.get("T")):
        return False
    twins = [diff.changes.match.value(v) for v in node.inputs]
    theirs = list(diff.changes.match.pairs[node].inputs)
    return len(twins) == len(theirs) and {id(v) for v in twins} == {id(v) for v in theirs}


def _is_form(text: str) -> bool:
    """True if an attribute only went, came, or says how something is stored: a default or an annotation."""
    # T, dtype and N follow from the inputs, and what is absent has its default.
    return ": absent -> " in text or text.endswith("-> absent") or text.split(":")[0] in {"T", "dtype", "N"}


def _fold_phrase(explanation: Explanation, kind: str) -> str:
    layers = explanation.layers.get(kind, set())
    convolutions = all("Conv" in n.op for n in layers)
    word = "convolution" if convolutions else "layer"
    what = "batch norm" if kind == "batch_norms" else "arithmetic node"
    return f"{_plural(explanation.count(kind), what)} folded into {_plural(len(layers), word)}"


def _plural(count: int, word: str) -> str:
    if count == 1:
        return f"1 {word}"
    head, _, tail = word.partition(" that passes")
    if tail:
        return f"{count} {head}s that pass{tail.replace(' its input', ' their input')}"
    return f"{count} {word}s"


def _ops(nodes: list[Node]) -> str:
    common = Counter(n.op for n in nodes).most_common(3)
    more = len({n.op for n in nodes}) - len(common)
    return ", ".join(f"{c} {op}" for op, c in common) + (f", {more} more kinds" if more else "")


def _who(a: str, b: str) -> str:
    return a if a == b else f"{a} | {b}"


def _weight_text(w: Any) -> str:
    head = f"{_who(w.a, w.b)} {w.before}" + (f" -> {w.after}" if w.after != w.before else "")
    if w.largest is not None:
        head += f": largest {w.largest:.3g}, mean {w.mean:.3g}, relative {w.relative:.3g}"
    return head + (" (folded)" if w.folded else "")


def _section(title: str, rows: list[str], limit: int) -> list[str]:
    if not rows:
        return []
    more = [f"  and {len(rows) - limit} more (--all)"] if len(rows) > limit else []
    return [f"{title} ({len(rows)}):", *(f"  {row}" for row in rows[:limit]), *more]
