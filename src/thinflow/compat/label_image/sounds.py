"""Sounds to the input of a model: the file itself as label_wav feeds it, or its samples."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from thinflow.engines.session import Session
from thinflow.errors import FormatError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.ir.types import STRING, TensorSpec
from thinflow.typing import Array

RATE = 16000
"""Samples a second of the sounds that the speech models of TensorFlow's tutorial are trained on."""
_SECOND = 16000
_AS_IN_THE_FILE = "give one channel of 16-bit PCM sound"


def sound_feeds(path: Path, session: Session, name: str, rate: int = RATE) -> dict[str, Array]:
    """Feed of a WAV file: the bytes of the file, or the samples if it takes those.

    Args:
        path: the file.
        session: runs the model.
        name: of its input.
        rate: samples a second that the model expects; 0: any.

    Raises:
        FormatError: the file cannot be read, holds no 16-bit PCM sound, or one at another rate.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise FormatError(f"cannot be read: {e.strerror}", str(path), "check the path") from e
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise FormatError("this is not a WAV file", str(path), "give 16-bit PCM sound")
    spec = session.spec(name)
    # Decoded even for an input that takes the file: its rate is checked, and damage found before the run.
    samples, found = _decoded(data, path, _sample_count(spec))
    if rate and found != rate:
        raise FormatError(
            f"the sound has {found} samples a second, the model expects {rate}",
            str(path),
            f"resample it, or say what the model expects: --sample_rate={found} (0: any)",
        )
    if spec.dtype == STRING:
        return {name: np.array(data, object).reshape((1,) * len(spec.shape or ()))}
    # A graph that takes samples has the rate as its other input, where DecodeWav gave both.
    rates = {other: np.array(found, np.int32) for other in session.inputs if other != name}
    return {name: _shaped(samples, spec), **rates}


def _sample_count(spec: TensorSpec) -> int:
    """Number of samples that an input takes; a second's if it does not say."""
    if spec.dtype == STRING or not spec.shape:
        return _SECOND
    sizes = [n for n in spec.shape if n is not None]
    return max(math.prod(sizes), 1) if len(sizes) and max(sizes) > 1 else _SECOND


def _shaped(samples: Array, spec: TensorSpec) -> Array:
    """Samples [n,1] in the shape of an input, in which one size may be open."""
    if not spec.shape:
        return samples
    # One open size takes what the others leave; several open ones are 1 each.
    open_sizes = [n for n in spec.shape if n is None]
    return samples.reshape(*(-1 if n is None and len(open_sizes) == 1 else n or 1 for n in spec.shape))


def _decoded(data: bytes, path: Path, count: int) -> tuple[Array, int]:
    """So many samples [count,1] of the first channel, cut or followed by silence, and the rate."""
    graph = Graph()
    content = graph.add("Placeholder", name="content", attrs={"dtype": STRING})
    sound = graph.add(
        "DecodeWav", [content], "decode", attrs={"desired_channels": 1, "desired_samples": count}
    )
    graph.inputs, graph.outputs = [content.output()], [sound.output(), sound.output(1)]
    try:
        samples, rate = Plan(graph, graph.outputs, graph.inputs).run(
            {graph.inputs[0]: np.array(data, object)}
        )
    except ThinflowError as e:
        raise FormatError(f"the sound cannot be read: {e.problem}", str(path), _AS_IN_THE_FILE) from e
    return samples, int(rate)
