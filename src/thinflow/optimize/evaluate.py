"""Accuracy on labelled samples: of a graph in the interpreter, of a .tflite or .onnx file in its engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.engines._files import is_file, path_of
from thinflow.engines.session import Session
from thinflow.errors import ParameterError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.optimize.class_labels import checked_labels
from thinflow.optimize.quality import Quality, QualityMeter
from thinflow.optimize.samples import class_names_for, class_names_of, one_sample, samples_for
from thinflow.optimize.stated_usage import labels_of, scaling_of, taken_text, usage_of
from thinflow.quantize.feeds import open_feeds
from thinflow.typing import Array


def evaluate(
    source: Any, data: Any, *, labels: str | os.PathLike[str] | Sequence[str] | None = None, **names: Any
) -> Quality:
    """The work of `thinflow.evaluate`, whose arguments these are; names: as for `load`.

    Raises:
        ParameterError: the samples have no labels.
    """
    from thinflow.load.graphs import load

    if is_file(source):
        return evaluate_file(source, data, labels)
    graph = load(source, **names)
    samples = samples_for(graph, data, class_names=class_names_of(graph, labels))
    if samples.labels is None:
        raise _without_labels(samples.given_labels)
    plan = Plan(graph, graph.outputs, graph.inputs)
    meter = QualityMeter(samples.labels)
    for feed in samples:
        outputs = _scores(plan.run(feed))
        # Accuracy of one model: it is compared with itself.
        meter.add(outputs, outputs)
    usage, ends = usage_of(graph), {v.name: v.spec for v in graph.outputs[:1]}
    found = None if labels is not None or _are_numbers(samples.given_labels) else labels_of(usage, ends)
    is_scaled = samples.scaling is not None and not samples.unscaled
    return replace(_result(meter), taken=taken_text(usage, found, is_scaled))


def _scores(outputs: Sequence[Array]) -> list[Array]:
    """Outputs with the codes of eight-bit models as numbers: the largest stays the largest."""
    return [a.astype(np.float32) if a.dtype.kind in "iu" and a.dtype.itemsize == 1 else a for a in outputs]


def _result(meter: QualityMeter) -> Quality:
    """The result on labelled samples.

    Raises:
        ParameterError: the first output has no score for each class, so that nothing is right or wrong.
    """
    result = meter.result()
    if result.samples and result.correct is None:
        raise ParameterError(
            "the first output is no row of scores, so that its answers are neither right nor wrong",
            hint="name the output with a score for each class: --outputs NAME",
        )
    return result


def _are_numbers(labels: Sequence[Any] | None) -> bool:
    """True if samples are labelled with the numbers of their classes, so that no names are needed."""
    return all(isinstance(item, (int, np.integer)) for item in labels or ())


def evaluate_file(
    path: str | os.PathLike[str] | Graph, data: Any, labels: str | os.PathLike[str] | Sequence[str] | None
) -> Quality:
    """Accuracy of a file on labelled samples, one at a time.

    Raises:
        ParameterError: the samples have no labels.
        FeedError: they do not fit the file's inputs.
        EngineUnavailable: the engine is missing, or refuses the file.
    """
    session = Session(path)
    # A file with an open batch is fed one sample at a time, as a device does it.
    specs = {name: one_sample(spec) for name, spec in session.inputs.items()}
    usage = usage_of(path)
    scaling = scaling_of(usage, specs, session.grids)
    feeds = open_feeds(data, specs, scaling=scaling)
    stated = labels_of(usage, session.outputs) if labels is None else None
    output = next(iter(session.outputs.values()), None)
    names = list(stated.words) if stated is not None else class_names_for(path_of(path), output, labels)
    numbers, _ = checked_labels(feeds.labels, names, output, feeds.place, is_scores=True)
    if numbers is None:
        raise _without_labels(feeds.labels)
    meter = QualityMeter(numbers)
    for feed in feeds:
        outputs = _scores(session.run(None, feed))
        meter.add(outputs, outputs)
    used = None if _are_numbers(feeds.labels) else stated
    taken = taken_text(usage, used, feeds.has_pictures and scaling is not None)
    return replace(_result(meter), taken=taken)


def _without_labels(found: Sequence[Any] | None) -> ParameterError:
    """The error where nothing can be right or wrong.

    Args:
        found: labels that are no numbers of classes; None if there are none at all.
    """
    if found is None:
        return ParameterError(
            "the samples have no labels", hint="name files LABEL_something, or give a 'labels' array"
        )
    few = ", ".join(sorted({str(label) for label in found})[:3])
    return ParameterError(
        f"the samples are labelled with words ({few}), and the order of the classes is not known",
        hint="give a file of class names, one a line: --labels labels.txt",
    )
