"""Which engine runs a node, and why not another."""

from __future__ import annotations

from collections import Counter
from typing import Any

from thinflow.api.exploring.finding import Finder
from thinflow.engines.session import Session
from thinflow.explorer.building import Built
from thinflow.explorer.document import Category, NodeKind, Overlay, Texts
from thinflow.explorer.facts import shortened

_INTERPRETER = "reference"


def placement_overlay(built: Built, model: Any, texts: Texts, engine: str = "auto") -> Overlay:
    """The engine of each node that runs, with the reason where it is left to the interpreter.

    Args:
        built: where the nodes are.
        model: graph with its ends, or path of a file, as it is run.
        texts: of the page.
        engine: as for `Session`.

    Raises:
        EngineUnavailable: it is not installed, or does not run such files.
    """
    session = Session(model, engine=engine)
    placement, reasons = session.placement, session.reasons
    finder = Finder(built)
    by_place = {p: name for node, name in placement.items() if (p := finder.find(node)) is not None}
    if session.path:  # a file in its own engine, which runs all of it or nothing
        runs = (NodeKind.OP, NodeKind.CALL)
        by_place = {p: session.engine for p, box in enumerate(built.boxes) if box.kind in runs}
    engines = [name for name, _ in Counter(by_place.values()).most_common()]
    # What was asked for first, so that its colour does not depend on how much it runs.
    engines.sort(key=lambda name: name == _INTERPRETER)
    categories = [
        Category(name, "warn" if name == _INTERPRETER and session.engine != _INTERPRETER else "good")
        for name in engines
    ]
    values = [engines.index(by_place[p]) if p in by_place else None for p in range(len(built.boxes))]
    words = {p: texts.of(shortened(r)) for n, r in reasons.items() if (p := finder.find(n)) is not None}
    asked = f"engine={engine!r}" if engine == "auto" else engine
    about = (
        f"Which engine runs the node under {asked}; what it cannot run is left to the interpreter, with the "
        "reason. Nodes without a colour are folded into others, or run by none."
    )
    return Overlay("placement", "placement", about, values, categories=categories, reasons=words)
