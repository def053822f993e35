"""How far engines' answers to published networks of eight bits are off the interpreter's, fed with noise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench
from benchmarks.lines import Line, NotThereYet, figure, guarded, judged
from benchmarks.ptq.cases import shared
from thinflow import Session
from thinflow.engines._autotune import CODES_TOLERANCE, usable_engines
from thinflow.engines._measured import JUDGE, apart
from thinflow.errors import EngineUnavailable
from thinflow.synthetic import concrete_shape

TITLE = "codes of published networks"
IN_QUICK = False
RUNS = 3


def measure(bench: Bench) -> Iterator[Line]:
    paths = sorted((shared() / "zoo" / "tflite").glob("*.tflite"))
    if not paths:
        raise NotThereYet(f"there are no .tflite files in {shared()}")
    for path in paths:
        yield from guarded(f"{TITLE}, {path.stem}", partial(_one, path=path), bench)


def _one(bench: Bench, path: Path) -> Iterator[Line]:
    del bench  # nothing is written
    judge = Session(path, JUDGE)
    if not judge.codes:
        return
    rng = np.random.default_rng(0)
    feeds = []
    for _ in range(RUNS):
        feed = {}
        for name, spec in judge.inputs.items():
            kind, shape = spec.dtype.numpy(), concrete_shape(spec)
            if kind.kind in "iu":
                limits = np.iinfo(kind)
                feed[name] = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
            else:
                feed[name] = rng.standard_normal(shape).astype(kind)
        feeds.append(feed)
    wanted = [judge.run(None, feed) for feed in feeds]
    for engine in usable_engines():
        if engine == JUDGE:
            continue
        label = f"{TITLE}, {path.stem}, {engine}"
        try:
            session = Session(path, engine)
            worst = max(apart(a, session.run(None, feed)) for a, feed in zip(wanted, feeds, strict=True))
        except EngineUnavailable as error:
            yield figure(label, f"not run: {error.problem[:60]}")
            continue
        limit = f"≤ {CODES_TOLERANCE:.0%} of the largest value"
        yield judged(label, limit, f"{worst:.1%}", worst <= CODES_TOLERANCE)
