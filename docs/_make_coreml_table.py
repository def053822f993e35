"""Writes docs/coreml-operators.md: which ops become a part of a Core ML package, and why the others do not.

    python docs/_make_coreml_table.py            # tries the cases of every op: a minute or two
    python docs/_make_coreml_table.py Abs Conv2D # prints the rows of some

The cases are those of tests/ops. A program of Core ML is made of each, which takes coremltools; whether such
programs answer as TensorFlow does is what tests/lower/coreml/test_conformance.py tries.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for the tests

from tests.conformance import op_cases  # noqa: E402
from tests.ops.cases import cases  # noqa: E402
from thinflow.analysis.shapes import infer_shapes  # noqa: E402
from thinflow.errors import ThinflowError, UnsupportedOp  # noqa: E402
from thinflow.ir.graph import Graph  # noqa: E402
from thinflow.ir.usage import Usage  # noqa: E402
from thinflow.lower.coreml.options import Options  # noqa: E402
from thinflow.lower.coreml.program import mil_program  # noqa: E402
from thinflow.lower.coreml.rules import codes  # noqa: E402
from thinflow.lower.onnx.convert import lower_graph  # noqa: E402
from thinflow.lower.rules import supported  # noqa: E402
from thinflow.ops import registry  # noqa: E402
from thinflow.ops.traits import Trait, has  # noqa: E402

PAGE = Path(__file__).with_name("coreml-operators.md")
MOST_CASES = 8
"""Of an op that are tried."""
WRITTEN, NOTHING = "", "it takes nothing"
_SHOWN = 110

INTRODUCTION = """# Operators in Core ML

What of TensorFlow's ops `thinflow convert MODEL m.mlpackage` writes; files of other kinds are put into these
ops first. Each row says what came of making a program of small graphs of one op, as the tests of that op have
them: `written`; `3 of 8`, if the others have types, attributes or sizes that Core ML has no form of, with the
most frequent reason; or `no` with the reason. `written` means that a program is made of it; conversion then
reads the package back and compares it with the graph. Ops that only train, read files or keep state are not
listed, unless something is written of them.

"""
FOLDED = """
## By ONNX's operators

Graphs are lowered to [ONNX's operators](onnx-operators.md), and each of those is said in MIL, Core ML's
language. It has rules for these:

"""


def graphs_of(op: str, case: Any) -> Iterator[Graph]:
    """The graph of a case, in several ways to feed it."""
    arrays = [np.asarray(x) for x in case[0]]
    for fed in op_cases._ways(arrays):
        graph = Graph()
        inputs = [
            op_cases._placeholder(graph, f"x{i}", a) if i in fed else graph.constant(a, f"x{i}")
            for i, a in enumerate(arrays)
        ]
        node = graph.add(op, inputs, "node", attrs=op_cases._with_types(op, case[1], inputs))
        graph.inputs = [v for i, v in enumerate(inputs) if i in fed]
        graph.outputs = op_cases._outputs(node, arrays)
        infer_shapes(graph)
        yield graph


def outcome(op: str, case: Any) -> str:
    """Why no way to feed a case can be written; `WRITTEN` if one can."""
    reasons = []
    try:
        for graph in graphs_of(op, case):
            try:
                program = lower_graph(graph, graph.inputs, graph.outputs).program
                mil_program(program, Options(), Usage())
            except UnsupportedOp as error:
                reasons.append(_short(error.problem))
            else:
                return WRITTEN
    except (ThinflowError, TypeError, ValueError, AttributeError) as error:
        reasons.append(_short(str(error)))
    return reasons[0] if reasons else NOTHING


def _short(problem: str) -> str:
    """A refusal without the names of the trial's graph."""
    text = problem.splitlines()[0].partition(" no form in Core ML: ")[2] or problem.splitlines()[0]
    # The first of them is enough.
    text = re.sub(r"^\d+ x (\S+) \('[^']*'\): ", r"\1: ", re.split(r"; \d+ x ", text)[0])
    text = text.replace("|", "\\|").replace("'node'", "it").replace("'x0'", "its input")
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3].rstrip()}..."


def row(op: str) -> str:
    """What to say of an op; "" for one that is not listed."""
    tried = [outcome(op, case) for case in cases().get(op, [])[:MOST_CASES]]
    if not tried or set(tried) == {NOTHING}:
        return "not tried" if op in supported("onnx") else ""
    written = tried.count(WRITTEN)
    why, _ = Counter(t for t in tried if t).most_common(1)[0] if written < len(tried) else ("", 0)
    if not written:
        return "" if has(op, _UNLISTED) else f"no: {why}"
    return "written" if written == len(tried) else f"{written} of {len(tried)}; else: {why}"


_UNLISTED = Trait.STATEFUL | Trait.RESOURCE | Trait.CONTROL_FLOW | Trait.SUMMARY


def page() -> str:
    """The page, from what becomes of every op."""
    names = sorted({name for name, _ in registry.all_ops()} | set(supported("onnx")))
    rows = {name: told for name in names if (told := row(name))}
    there = sum(not told.startswith(("no", "not tried")) for told in rows.values())
    table = [f"| `{name}` | {told} |" for name, told in rows.items()]
    head = [
        f"Of {len(rows)} ops {there} are written, in all or some forms.",
        "",
        "| op | Core ML |",
        "|---|---|",
    ]
    listed = ", ".join(f"`{code}`" for code in codes())
    return "\n".join([INTRODUCTION + head[0], *head[1:], *table, FOLDED + listed + "."]) + "\n"


def main(names: Sequence[str]) -> None:
    """Print the rows of some ops, or write the page."""
    if names:
        print("\n".join(f"{name}: {row(name)}" for name in names))
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
