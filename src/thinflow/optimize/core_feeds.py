"""What a model of a graph's core is fed to prove it, and what the graph makes of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np

from thinflow.errors import FeedError, FormatError, NodeError
from thinflow.interpreter import Plan
from thinflow.optimize.core import Core
from thinflow.optimize.samples import Samples
from thinflow.synthetic import explain_open_sizes, open_sizes, synthetic_array
from thinflow.typing import Array

_SEED = 0
REFUSED = (NodeError, FeedError, FormatError)
"""What a graph says of inputs that do not fit it: a picture or a sound may be no file at all."""


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
    rng = np.random.default_rng(_SEED)
    with _unproven(core, samples):
        return [[synthetic_array(v, rng) for v in core.inputs] for _ in range(count)]


def core_results(
    plan: Plan, core: Core, feeds: Sequence[Sequence[Array]], samples: Samples
) -> list[list[Array]]:
    """What a plan of the core computes of each feed.

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
