"""Comparison of the interpreter with the runtime that a .tflite or .onnx file is for.

What lies inside of such a file is computed by the interpreter, from the file's ops said in TensorFlow's. Were
one of them said wrongly, everything compared with it would be judged by the mistake. So the whole file is run
both ways first, on the same inputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.compare.differences import difference
from thinflow.compare.inner_values import real_numbers
from thinflow.compare.match_io import plain
from thinflow.engines._child import call
from thinflow.engines._files import engine_of, path_of
from thinflow.engines.session import Session
from thinflow.errors import ThinflowError, VerificationError
from thinflow.ir.graph import Graph
from thinflow.synthetic import synthetic_feeds
from thinflow.typing import Array

Feed = Mapping[str, Any]
Model = Graph | str | os.PathLike[str]

FLOAT_GAP = 1e-3
"""Tolerance between them, relative to the largest value: other orders of additions, over many layers."""
CODES_GAP = 0.1
"""The same where integers stand for numbers: a code here and there, which adds up over many layers."""
_SEED, _RUNS = 0, 2


def compared_with_own_runtime(
    model: Model, signature: str | None, feeds: Sequence[Feed] | None, tolerance: float
) -> str:
    """Result of running a file both ways, in a sentence.

    Args:
        model: the file, or the graph as it was read from it.
        signature: of a .tflite file, which one to run; None: as the file says.
        feeds: by the names of its inputs; made up where there are none, or others are named.
        tolerance: relative difference that is asked for elsewhere; it is never stricter here than there.

    Raises:
        VerificationError: the interpreter computes something else.
    """
    name = os.path.basename(path_of(model))
    engine = engine_of(model)
    try:
        lifted = Session(model, "reference", signature=signature)
        chosen = _fitting(feeds, lifted) or _made_up(lifted)
        ours = [lifted.run(list(lifted.outputs), feed) for feed in chosen]
        asked = path_of(model), engine, signature, list(lifted.outputs), chosen
        # In a child: a runtime that crashes on a file must not take this process along.
        theirs = call(_answers, asked, engine, f"running {name}")
    except ThinflowError as error:
        return (
            f"{name} was computed by the interpreter, and not compared with {engine}, its own runtime: "
            f"{error.message}"
        )
    gap, output = _farthest(lifted, ours, theirs)
    if gap > max(tolerance, CODES_GAP if lifted.codes else FLOAT_GAP):
        raise VerificationError(
            f"the interpreter does not compute '{output}' as {engine} does, which the file is for "
            f"(relative difference {gap:.2g}), so nothing can be compared with what lies inside",
            name,
            hint="compare outputs of the whole file, which its own runtime computes; and please report this "
            "with the file",
        )
    return f"{name} was computed by the interpreter, whose answers are as in {engine}, to {gap:.2g}"


def _answers(
    path: str, engine: str, signature: str | None, outputs: Sequence[str], feeds: Sequence[Feed]
) -> list[list[Array]]:
    session = Session(path, engine, signature=signature)
    return [session.run(list(outputs), feed) for feed in feeds]


def _fitting(feeds: Sequence[Feed] | None, session: Session) -> list[dict[str, Any]]:
    """The feeds by the session's names if they feed just its inputs; else nothing."""
    names = {plain(n): n for n in session.inputs}
    if not feeds or any({plain(n) for n in feed} != set(names) for feed in feeds):
        return []
    return [{names[plain(n)]: x for n, x in feed.items()} for feed in feeds[:_RUNS]]


def _made_up(session: Session) -> list[dict[str, Any]]:
    assert session.graph is not None
    made = synthetic_feeds(session.graph.inputs, _RUNS, _SEED)
    return [{v.name: x for v, x in feed.items()} for feed in made]


def _farthest(
    session: Session, ours: Sequence[Sequence[Array]], theirs: Sequence[Sequence[Array]]
) -> tuple[float, str]:
    """The largest relative difference, and the output that has it."""
    worst, which = 0.0, next(iter(session.outputs), "")
    for a, b in zip(ours, theirs, strict=True):
        for name, x, y in zip(session.outputs, a, b, strict=True):
            grid = session.grids.get(name)
            # The file's own runtime first: differences are relative to what it computes.
            gap = difference(*(real_numbers(np.asarray(z), grid) for z in (y, x))).relative
            if gap > worst:
                worst, which = gap, name
    return worst, which
