"""Accuracy on labelled samples: of a graph in the interpreter, of a .tflite or .onnx file in its engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from thinflow.engines._files import is_file, path_of
from thinflow.engines.session import Session
from thinflow.errors import ParameterError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.optimize.quality import Quality, QualityMeter
from thinflow.optimize.samples import class_names_for, class_numbers, one_sample, samples_for
from thinflow.quantize.feeds import open_feeds


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
    output = graph.outputs[0].spec if graph.outputs else None
    samples = samples_for(graph, data, class_names=class_names_for(graph.path, output, labels))
    if samples.labels is None:
        raise _without_labels(samples.given_labels)
    plan = Plan(graph, graph.outputs, graph.inputs)
    meter = QualityMeter(samples.labels)
    for feed in samples:
        outputs = plan.run(feed)
        # Accuracy of one model: it is compared with itself.
        meter.add(outputs, outputs)
    return meter.result()


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
    feeds = open_feeds(data, {name: one_sample(spec) for name, spec in session.inputs.items()})
    names = class_names_for(path_of(path), next(iter(session.outputs.values()), None), labels)
    numbers = class_numbers(feeds.labels, names) if feeds.labels is not None else None
    if numbers is None:
        raise _without_labels(feeds.labels)
    meter = QualityMeter(numbers)
    for feed in feeds:
        outputs = session.run(None, feed)
        meter.add(outputs, outputs)
    return meter.result()


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
