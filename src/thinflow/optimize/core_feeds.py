"""Feeds of a graph's core that a converted model is proven with, and the interpreter's results for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np

from thinflow.errors import FeedError, FormatError, NodeError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Value
from thinflow.optimize.batch_sizes import is_open
from thinflow.optimize.core import Core
from thinflow.optimize.samples import Samples
from thinflow.synthetic import explain_open_sizes, open_sizes, synthetic_array
from thinflow.typing import Array

_SEED = 0
REFUSED = (NodeError, FeedError, FormatError)
"""Errors of a graph whose inputs do not fit it: a picture or a sound may be no file at all."""


class UnprovenError(FeedError):
    """The graph itself does not run on what was made up for it, so that nothing can be compared with it."""


def core_feeds(core: Core, samples: Samples, count: int) -> list[list[Array]]:
    """The core's inputs for the first `count` samples.

    Where made-up samples do not go through what stands before the core, numbers are made up for the core
    itself: they prove it as well.

    Raises:
        NodeError, FeedError: real samples do not go through.
        UnprovenError: nothing can be made up.
    """
    try:
        return [core.before(feed) for feed in islice(samples, count)]
    except REFUSED:
        if not samples.synthetic:
            raise
    # Made up where the core begins: what decodes bytes would only refuse noise.
    rng = np.random.default_rng(_SEED)
    with _unproven(core, samples):
        return [[synthetic_array(v, rng) for v in core.inputs] for _ in range(count)]


def core_results(
    plan: Plan, core: Core, feeds: Sequence[Sequence[Array]], samples: Samples
) -> list[list[Array]]:
    """The results of a plan of the core for each feed.

    Raises:
        NodeError, FeedError: the graph does not run on real samples.
        UnprovenError: it does not run on made-up ones.
    """
    with _unproven(core, samples):
        return [plan.run(dict(zip(core.inputs, arrays, strict=True))) for arrays in feeds]


@contextmanager
def _unproven(core: Core, samples: Samples) -> Iterator[None]:
    try:
        yield
    except REFUSED as error:
        if not samples.synthetic:
            raise
        told = explain_open_sizes(error, open_sizes(core.graph.inputs)) or error
        raise UnprovenError(told.problem, told.where, told.hint) from error


@contextmanager
def batch_failure() -> Iterator[list[str]]:
    """A list with the reason why the block failed; it is empty if it did not.

    The block compares a model with its graph for two samples at once.
    """
    why: list[str] = []
    try:
        yield why
    except (UnprovenError, NodeError) as error:
        why.append(f"the graph itself does not run with two samples at once: {error.problem}")
    except ThinflowError as error:
        why.append(f"not right with two samples at once: {error.problem}")


def several(core: Core, samples: Samples) -> list[Array]:
    """The core's inputs for two samples at once: those with an open batch one behind the other.

    Where there is only one sample, it is followed by its mirror image. Where made-up ones do not go through
    what stands before the core, numbers are made up for the core itself.

    Raises:
        NodeError, FeedError: they do not go through what stands before the core.
    """
    feeds = list(islice(samples, 2))
    open_inputs = {v for v in core.graph.inputs if is_open(v.spec)}
    try:
        return core.before(_joined(feeds, open_inputs))
    except REFUSED:
        if not samples.synthetic:
            raise
    made = [dict(zip(core.inputs, arrays, strict=True)) for arrays in core_feeds(core, samples, len(feeds))]
    joined = _joined(made, {v for v in core.inputs if is_open(v.spec)})
    return [joined[v] for v in core.inputs]


def doubled(feed: Mapping[Value, Array]) -> dict[Value, Array]:
    """A feed with twice the size where one beyond the batch is open: the other half is its mirror image."""
    found = {}
    for value, array in feed.items():
        for axis, size in enumerate(value.spec.shape or ()):
            if axis and size is None:
                array = np.concatenate([array, np.flip(array, axis)], axis)
        found[value] = array
    return found


def _joined(feeds: Sequence[Mapping[Value, Array]], batched: set[Value]) -> dict[Value, Array]:
    first, last = feeds[0], feeds[-1]
    return {v: np.concatenate([a, _other(v, first, last)]) if v in batched else a for v, a in first.items()}


def _other(value: Value, first: Mapping[Value, Array], last: Mapping[Value, Array]) -> Array:
    """Another sample that goes with the first: of its sizes beyond the batch."""
    a, b = first[value], last[value]
    # Joined along the batch, all other sizes have to agree; a mirror image is another sample of the same
    # sizes.
    if last is not first and a.shape[1:] == b.shape[1:]:
        return b
    return np.flip(a, tuple(range(1, a.ndim)))
