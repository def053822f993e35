"""Proof of networks in C that hear a stream: run by run they answer as the whole window does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from thinflow.engines._c_library import Library
from thinflow.errors import VerificationError
from thinflow.lower.c.convert import Network
from thinflow.lower.c.sample import Sample
from thinflow.lower.c.streaming import replace_sizes
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Tensor
from thinflow.typing import Array

_COMPARED = 5
"""Runs behind the first whole window."""
_TOLERANCE = 1e-5
"""Of the largest number of an output of floats: compilers sum in the order that suits the sizes."""


def runs_until_whole(made: Network, whole: Network) -> int:
    """The number of runs after which a stream has heard a whole window."""
    _, length, hop = _moved(made, whole)
    return -(-length // hop)


def sample_of_stream(made: Network, whole: Network, sample: Sample) -> Sample:
    """A sample of a window as what a stream hears of it run by run, with silence before it if runs need more.

    Args:
        made: the network that hears a stream.
        whole: the one of the whole window.
        sample: of that one.
    """
    axis, length, hop = _moved(made, whole)
    (window,) = sample.inputs
    shape = list(window.shape)
    shape[axis] = runs_until_whole(made, whole) * hop - length
    return Sample([np.concatenate([np.zeros(shape, window.dtype), window], axis)], sample.outputs)


def prove_stream(
    made: Network, whole: Network, make_up: Callable[[Tensor, np.random.Generator], Array]
) -> str:
    """Compile both, and compare what they answer to made-up rows; what came of it.

    Args:
        made: the network that hears a stream.
        whole: the one of the whole window.
        make_up: makes values of an input.

    Raises:
        VerificationError: an answer differs.
    """
    axis, length, hop = _moved(made, whole)
    runs = -(-length // hop) + _COMPARED
    sizes = tuple(n or 1 for n in whole.block.inputs[0].shape or ())
    longer = replace_sizes(
        whole.block.inputs[0], (*sizes[:axis], length + runs * hop, *sizes[axis + 1 :]), "heard"
    )
    heard = make_up(longer, np.random.default_rng(1))
    streamed, windowed = (Library(one, Writer(one, "network").files(), "network") for one in (made, whole))
    compared = 0
    for end, new in _steps(heard, axis, hop, runs):
        answers = streamed.run([new])
        if end < length:
            continue
        window = np.ascontiguousarray(np.take(heard, range(end - length, end), axis))
        for tensor, got, wanted in zip(whole.outputs, answers, windowed.run([window]), strict=True):
            most = np.abs(wanted).max() * _TOLERANCE if wanted.dtype.kind == "f" else 0
            if not (np.abs(got.astype(np.float64) - wanted) <= most).all():
                raise VerificationError(
                    f"the stream answers otherwise than its window: '{tensor.name}' in run {end // hop}",
                    hint="please report this with the model; leave out --stream",
                )
        compared += 1
    return f"as a stream it answered as the whole window did, in {compared} runs one after the other"


def _steps(heard: Array, axis: int, hop: int, runs: int) -> Iterator[tuple[int, Array]]:
    for number in range(1, runs + 1):
        end = number * hop
        yield end, np.ascontiguousarray(np.take(heard, range(end - hop, end), axis))


def _moved(made: Network, whole: Network) -> tuple[int, int, int]:
    """The axis of time, the rows of a window and those of a run."""
    new, all_ = (tuple(n or 1 for n in one.block.inputs[0].shape or ()) for one in (made, whole))
    axis = next(n for n, (a, b) in enumerate(zip(new, all_, strict=True)) if a != b)
    return axis, all_[axis], new[axis]
