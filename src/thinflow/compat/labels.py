"""Labels for pictures and sounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinflow.compat.label_image import Guess, Preparation
    from thinflow.engines.session import Session


def label_pictures(
    model: str | os.PathLike[str],
    pictures: str | os.PathLike[str],
    labels: str | os.PathLike[str] = "",
    *,
    preparation: Preparation,
    scale: float | None = None,
    input_layer: str = "",
    output_layer: str = "",
    defaults: tuple[str, str] = ("input", "InceptionV3/Predictions/Reshape_1"),
    count: int = 5,
    note: Any = None,
    runs: int = 0,
    **options: Any,
) -> Iterator[tuple[Path, list[Guess]]]:
    """The best labels of a picture, or of each in a folder.

    Args:
        model: any model thinflow opens.
        pictures: a file or a folder.
        labels: a text file, one label a line; "": those in the model's file.
        preparation: how a picture becomes an input; what is not given there is taken from the model's file.
        scale: mean and standard deviation where neither says any; default: see `Preparation`.
        input_layer, output_layer: names; default: `defaults` if the model has them, else its own.
        count: how many labels of each.
        note: told what is worth saying about the choice of layers.
        runs: run this often on each, and let `note` know how long a run took; 0: once, and say nothing.
        options: as for `Session`.
    """
    from thinflow.compat import label_image as labelling
    from thinflow.optimize.stated_usage import usage_of

    names = labelling.read_labels(labels) if labels else []
    files = labelling.files_of(pictures, labelling.PICTURES)
    session = _session(model, **options)
    source, output, notes = labelling.layers(session, (input_layer, output_layer), defaults)
    stated = labelling.StatedUse(session, usage_of(model if session.graph is None else session.graph))
    preparation, taken = stated.preparation(source, preparation)
    names, taken_labels = stated.labels(output, names, os.fspath(labels))
    if scale is not None and not preparation.is_scaled and not taken:
        preparation = replace(preparation, mean=scale, std=scale)
    # Only where the input is a guess: what the user or the original names is taken as it is.
    if not input_layer and (source != defaults[0] or not session.inputs):
        guessed = source
        source, preparation, told = labelling.as_of_2015(session, source, output, preparation)
        notes[:1] = [notes[0] if source == guessed else "", told]
    for line in filter(None, [*notes, *taken, *taken_labels] if note is not None else ()):
        note(line)

    def feeds(file: Path) -> dict[str, Any]:
        return labelling.picture_feeds(file, session, source, preparation)

    def tell(seconds: float) -> None:
        note(f"average time: {seconds * 1000:.6g} ms")

    clock = labelling.Clock(runs, tell) if runs > 0 and note is not None else None
    yield from labelling.label_files(session, files, feeds, output, names, count, clock)


def has_labels(model: str | os.PathLike[str]) -> bool:
    """True if a model's file has names of classes of its own."""
    from thinflow.optimize.stated_usage import usage_of

    return any(output.labels is not None for output in usage_of(model).outputs.values())


def _session(model: str | os.PathLike[str], engine: str = "auto", **options: Any) -> Session:
    """A session that answers as TensorFlow does, to the bit where the model computes in classic eight bits.

    Engines stay within one code in each of its steps; over a hundred layers another label may come out best.
    """
    from thinflow.engines.session import Session

    session = Session(model, engine=engine, **options)
    graph = session.graph
    if engine != "auto" or graph is None or not any(node.op.startswith("Quantized") for node in graph):
        return session
    return Session(graph, engine="reference", **options)


def label_sounds(
    model: str | os.PathLike[str],
    sounds: str | os.PathLike[str],
    labels: str | os.PathLike[str] = "",
    *,
    input_name: str = "",
    output_name: str = "",
    defaults: tuple[str, str] = ("wav_data:0", "labels_softmax:0"),
    count: int = 3,
    sample_rate: int = 16000,
    note: Any = None,
    **options: Any,
) -> Iterator[tuple[Path, list[Guess]]]:
    """The best labels of a WAV file, or of each in a folder; see `label_pictures`.

    Args:
        sample_rate: samples a second that the model expects; 0: any.
    """
    from thinflow.compat import label_image as labelling
    from thinflow.optimize.stated_usage import usage_of

    names = labelling.read_labels(labels) if labels else []
    files = labelling.files_of(sounds, labelling.SOUNDS)
    session = _session(model, **options)
    source, output, notes = labelling.layers(session, (input_name, output_name), defaults)
    stated = labelling.StatedUse(session, usage_of(model if session.graph is None else session.graph))
    names, taken = stated.labels(output, names, os.fspath(labels))
    for line in filter(None, [*notes, *taken] if note is not None else ()):
        note(line)

    def feeds(file: Path) -> dict[str, Any]:
        return labelling.sound_feeds(file, session, source, sample_rate)

    yield from labelling.label_files(session, files, feeds, output, names, count)


def preparation(
    width: int, height: int, mean: float | None, std: float | None, *, bgr: bool = False
) -> Preparation:
    """Preparation of a picture for an input: sizes (0: the model's), and (pixel - mean) / std."""
    from thinflow.compat.label_image import Preparation

    return Preparation(width, height, mean, std, bgr)
