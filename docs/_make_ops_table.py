"""Writes docs/ops.md: which op runs on which engine, and how exactly.

    python docs/_make_ops_table.py            # runs every case on every engine: some minutes
    python docs/_make_ops_table.py --new      # only the ops that have got other cases since, or none yet
    python docs/_make_ops_table.py --page     # writes the page from what the last run found, docs/ops.json

The cases are those of tests/ops, beside the interpreter, and graphs with the results that TensorFlow gave for
them (../shared/conformance, or THINFLOW_SHARED). Where the latter are missing, what they once showed is kept.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for the tests

from tests.conformance import cases as whole_graphs  # noqa: E402
from tests.conformance import op_cases  # noqa: E402
from thinflow.engines import partition  # noqa: E402
from thinflow.lower.rules import supported  # noqa: E402
from thinflow.ops import registry  # noqa: E402
from thinflow.ops.traits import Trait, has  # noqa: E402

PAGE = Path(__file__).with_name("ops.md")
FOUND = Path(__file__).with_name("ops.json")
ENGINES = {"reference": "reference", "litert": "LiteRT", "onnxruntime": "ONNX Runtime"}
TARGETS = {"litert": "tflite", "onnxruntime": "onnx"}

Counts = dict[str, dict[str, dict[str, int]]]
"""Op -> engine -> what became of how many cases."""

INTRODUCTION = """# Ops

What runs where. A graph may hold any op: what an engine cannot run the reference runs, and what nobody can
run is carried through transforms untouched. See [Engines](engines.md#what-litert-cannot-run).

- **reference**: `exact`: TensorFlow's results to the last bit, in all graphs that were compared; `close`:
  within 1e-4 of them; `runs`: it has a kernel with tests of its own, and no result of TensorFlow is stored
  for it; `flow`: loops, branches and calls, which the interpreter runs without a kernel; `-`: it has none.
- **LiteRT**, **ONNX Runtime**: `exact`, `close`: the engine itself runs it, with the results of the reference
  and of TensorFlow; `3 of 8`: in so many of the cases, the others having types or attributes that it has no
  form of; `1 differs`: in one of the cases it gives other values, for the reason in the footnote;
  `not tried`: there is a rule and no case that uses it; `fallback`: the reference runs it.
"""

NOTES = {
    "litert-nan": "LiteRT's kernel takes NaN for a number: of NaN and 1 the larger is 1, and e to the NaN "
    "is 0. A second look at every element would cost as much as the op.",
    "ort-nan": "ONNX Runtime's kernel compares several elements at a time, and whether NaN wins depends on "
    "where it stands. A second look at every element would cost as much as the op.",
    "litert-unset": "LiteRT's kernel leaves what it has no detections for unset: rows from the number of "
    "detections on hold what the memory held, zeros in the reference.",
    "out-of-range": "Of NaN, infinities and numbers that the integer type does not hold. C++ leaves open "
    "what becomes of them: TensorFlow's results depend on the processor (the reference gives those of x86), "
    "and LiteRT's are the limits of the type, or of int32 on the way to smaller ones.",
}
"""Why an engine differs, where that cannot be helped."""
REASONS = {
    "litert": dict.fromkeys(("Cosh", "Exp", "Max", "Maximum", "Min", "Minimum"), "litert-nan")
    | {"Cast": "out-of-range", "TFLite_Detection_PostProcess": "litert-unset"},
    "onnxruntime": dict.fromkeys(("ArgMax", "ArgMin", "Max", "Min"), "ort-nan"),
}
"""Engine -> op that differs -> which of the notes says why."""


def known_ops() -> list[str]:
    """Every op that anything here knows, sorted."""
    return sorted({name for name, _ in registry.all_ops()}.union(*map(supported, TARGETS.values())))


def page(found: dict[str, Counts]) -> str:
    """The page for what a run found."""
    rows = {op: [cell(found, op, engine) for engine in ENGINES] for op in known_ops()}
    parts = [INTRODUCTION, _summary(rows), "| op | " + " | ".join(ENGINES.values()) + " |", "|---" * 4 + "|"]
    table = [f"| `{op}` | " + " | ".join(cells) + " |" for op, cells in rows.items()]
    notes = [f"[^{name}]: {text}" for name, text in NOTES.items()]
    return "\n".join([*parts, *table, "", *notes]) + "\n"


def _summary(rows: dict[str, list[str]]) -> str:
    parts = []
    for number, title in enumerate(ENGINES.values()):
        words = Counter(cells[number].partition(",")[0] for cells in rows.values())
        there = len(rows) - words["-"] - words["fallback"]
        parts.append(f"{title} {there}")
    return f"Of {len(rows)} ops run: {', '.join(parts)}.\n"


def cell(found: dict[str, Counts], op: str, engine: str) -> str:
    """What to say of an op on an engine."""
    if engine == "reference":
        return _reference_cell(found, op)
    counts = Counter[str]()
    for part in found.values():
        counts.update(part.get(op, {}).get(engine, {}))
    here = counts[op_cases.EXACT] + counts[op_cases.CLOSE] + counts[op_cases.OTHER]
    if not here:
        has_rule = op in supported(TARGETS[engine])
        return "not tried" if has_rule and not counts else _elsewhere(op)
    words = ["close" if counts[op_cases.CLOSE] else "exact"]
    if counts[op_cases.FALLBACK]:
        words.append(f"{here} of {counts.total()}")
    if counts[op_cases.OTHER]:
        note = REASONS[engine].get(op)
        words.append(f"{counts[op_cases.OTHER]} differs" + (f"[^{note}]" if note else ""))
    return ", ".join(words)


def _reference_cell(found: dict[str, Counts], op: str) -> str:
    counts = found["tensorflow"].get(op, {}).get("reference", {})
    if counts:
        return "exact" if set(counts) == {op_cases.EXACT} else "close"
    definition = registry.find(op)
    if definition is not None and definition.kernel is not None:
        return "runs"
    return "flow" if has(op, Trait.CONTROL_FLOW) else "-"


def _elsewhere(op: str) -> str:
    return "-" if _reference_cell({"tensorflow": {}}, op) == "-" else "fallback"


def own_cases(ops: Iterable[str], most: int | None = None) -> Counts:
    """What becomes of the cases of `tests/ops`."""
    return {
        op: {e: dict(counts) for e in TARGETS if (counts := op_cases.outcomes(op, e, most))} for op in ops
    }


def is_complete(op: str, by_engine: dict[str, dict[str, int]]) -> bool:
    """Whether all the cases that an op has now were run, and no others."""
    count = len(op_cases.cases().get(op, []))
    return all(sum(by_engine.get(engine, {}).values()) == count for engine in TARGETS)


def conformance(folder: Path) -> Counts:
    """What becomes of the graphs with TensorFlow's results, counted for every op in them."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for path in sorted(folder.glob("*.pb")):
        case = whole_graphs.load_case(path)
        for engine in ENGINES:
            result = whole_graphs.run_case(case, engine)
            here = op_cases.EXACT if result.exact else op_cases.CLOSE
            for node, where in result.placement.items():
                if node in case.graph:
                    status = (
                        op_cases.OTHER if result.failure else here if where == engine else op_cases.FALLBACK
                    )
                    op = case.graph.node(node).op
                    found.setdefault(op, {}).setdefault(engine, Counter())[status] += 1
    return {op: {e: dict(c) for e, c in by.items()} for op, by in sorted(found.items())}


def stored() -> dict[str, Any]:
    """What the last run found."""
    data: dict[str, Any] = json.loads(FOUND.read_text("utf-8")) if FOUND.exists() else {"tensorflow": {}}
    return data


def main(arguments: list[str]) -> None:
    found = stored()
    if "--page" not in arguments:
        partition.too_small = lambda region: ""  # the cases are too small for any engine to pay
        known = found.get("own", {}) if "--new" in arguments else {}
        kept = {op: known[op] for op in known_ops() if op in known and is_complete(op, known[op])}
        found["own"] = kept | own_cases(op for op in known_ops() if op not in kept)
        folder = Path(os.environ.get("THINFLOW_SHARED") or ROOT.parent / "shared") / "conformance"
        if folder.is_dir():
            found["tensorflow"] = conformance(folder)
        FOUND.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(page(found), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
