"""What transforms did to a node, or why they left it."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.api.exploring.finding import Finder
from thinflow.explorer.building import Built
from thinflow.explorer.document import Category, Overlay, Texts
from thinflow.explorer.facts import shortened
from thinflow.rewrite.runner import StepReport

_MOST_REASONS = 4


def touched_overlay(built: Built, steps: Sequence[StepReport], texts: Texts) -> Overlay:
    """For the graph before: which step changed a node first, else which left it; in words what and why."""
    finder = Finder(built)
    labels: dict[str, int] = {}
    values: list[float | None] = [None] * len(built.boxes)
    words: dict[int, list[str]] = {}
    categories: list[Category] = []
    # Changes first: what one step changed another may have left.
    for tone, verb in (("good", "changed by"), ("warn", "left by")):
        for step in steps:
            name = step.name
            for entry in step.trace.changes if tone == "good" else step.trace.left:
                place = finder.find(entry.node)
                if place is None:
                    continue
                words.setdefault(place, []).append(f"{name}: {entry.text}")
                if values[place] is None:
                    label = f"{verb} {name}"
                    if label not in labels:
                        labels[label] = len(categories)
                        categories.append(Category(label, tone))
                    values[place] = labels[label]
    reasons = {p: texts.of(shortened("; ".join(w[:_MOST_REASONS]), 400)) for p, w in words.items()}
    for place, lines in words.items():
        built.view.nodes.remarks.setdefault(place, []).extend(texts.of(shortened(w)) for w in lines)
    about = (
        "Which transform changed the node first, or left it and why. Nodes without a colour were neither "
        "changed nor nearly."
    )
    return Overlay(
        "transforms",
        "transforms",
        about,
        values,
        categories=categories or [Category("none")],
        reasons=reasons,
    )


def outcome(steps: Sequence[StepReport]) -> str:
    """Why no step changed anything, in the words of the ledger; else how many changes there were."""
    changes = sum(len(step.trace.changes) for step in steps if not step.error)
    if changes:
        return f"{changes:,} change{'s' if changes != 1 else ''}"
    return "; ".join(["nothing changed", *(f"{step.name}: {_reason(step)}" for step in steps)])


def _reason(step: StepReport) -> str:
    if step.error:
        return f"undone: {step.error}"
    left = step.trace.left
    if not left:
        return step.nothing or "nothing matched"
    texts = dict.fromkeys(entry.text for entry in left)
    return f"left {len(left):,} as they are: {shortened('; '.join(list(texts)[:_MOST_REASONS]), 400)}"


def made_overlay(built: Built) -> Overlay:
    """For the graph behind them: which transform made a node."""
    origins = [box.node.origin if box.node is not None else "" for box in built.boxes]
    labels = list(dict.fromkeys(o for o in origins if o))
    values = [labels.index(o) if o else None for o in origins]
    about = "Which transform made the node. Nodes without a colour are from the file."
    categories = [Category(f"made by {label}", "good") for label in labels] or [Category("none")]
    return Overlay("transforms", "transforms", about, values, categories=categories)
