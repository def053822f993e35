"""What models are run with, in words; and where made-up inputs are likely to tell another time than real
ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.analysis.stats import Distribution, describe
from thinflow.bench.inputs import FeedSeries
from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.bench.targets import Subject
    from thinflow.ir.graph import Graph, Node

_SHOWN = 3
"""Inputs that are described."""


@brief_repr
@dataclass(frozen=True)
class Fed:
    """What a model was run with.

    Attributes:
        text: in words: "32 samples of clips/", "made up: float32 [1,224,224,3] from -1 to 1".
        is_made_up: nobody gave it.
        samples: how many took turns; the i-th run got the one with the number i modulo that.
        places: file or number of each sample, where they are known.
        left_out: samples that were not taken since their sizes differ from those of the first.
        doubts: what in the model may take another time on real input, where it is made up.
    """

    text: str
    is_made_up: bool = False
    samples: int = 1
    places: tuple[str, ...] = ()
    left_out: int = 0
    doubts: tuple[str, ...] = ()

    def place(self, number: int) -> str:
        """The file of a sample, or its number."""
        return self.places[number] if number < len(self.places) else f"sample {number}"

    def caveats(self) -> Iterator[str]:
        """What a reader of times should know of it."""
        if self.doubts:
            what = " and ".join(self.doubts)
            yield f"the input is made up; {what} may take another time on real input: --calibration SAMPLES"
        if self.left_out:
            are = "sample is" if self.left_out == 1 else "samples are"
            yield f"{self.left_out} {are} of other sizes than the first, and left out"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "text": self.text,
            "made_up": self.is_made_up,
            "samples": self.samples,
            "places": list(self.places),
            "left_out": self.left_out,
            "doubts": list(self.doubts),
        }


def fed_to(subject: Subject, arrays: Sequence[Array] | None = None) -> Fed:
    """What a subject is run with.

    Args:
        subject: that was made ready to run, or
        arrays: that it is fed.
    """
    if isinstance(given := subject.feeds, FeedSeries):
        return Fed(str(given), samples=len(given.feeds), places=given.places, left_out=given.left_out)
    if given is not None:
        return Fed("given arrays")
    doubts = tuple(value_dependent(subject))
    return Fed(made_up_text(subject.fed if arrays is None else arrays), is_made_up=True, doubts=doubts)


def fed_on_device(subject: Subject, samples: Sequence[Sequence[Array]]) -> Fed:
    """What a subject is run with elsewhere, where not all of its samples may be sent."""
    if isinstance(subject.feeds, FeedSeries):
        subject.feeds = subject.feeds.first(len(samples))
    return fed_to(subject, samples[0])


def made_up_text(arrays: Sequence[Array]) -> str:
    """Arrays that were made up, in words."""
    told = [_array_text(np.asarray(array)) for array in arrays[:_SHOWN]]
    told += [f"{len(arrays) - _SHOWN} more"] if len(arrays) > _SHOWN else []
    return f"made up: {', '.join(told)}" if told else "nothing: it has no inputs"


def _array_text(array: Array) -> str:
    kind = "text" if array.dtype.kind in "OSU" else str(array.dtype)
    shape = f" [{','.join(map(str, array.shape))}]" if array.shape else ""
    if not array.size or array.dtype.kind not in "iuf":
        return f"{kind}{shape}"
    low, high = float(array.min()), float(array.max())
    # Numbers up to 1 do not reach it by chance: 0.998 is told as 1.
    span = f"{low:.5g}" if low == high else f"from {round(low, 1):.3g} to {round(high, 1):.3g}"
    return f"{kind}{shape} {span}"


# --- times by sample ----------------------------------------------------------------------------------------

_APART = 1.2
"""Times that differ by less are nothing to tell of."""
_FEWEST = 6
"""Runs of each sample, for an interval of its median."""


def by_sample(times_ns: Sequence[int], samples: int) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Number and median, in ms, of the quickest sample and of the slowest; None if no difference is certain.

    Args:
        times_ns: of runs, among which the samples took turns.
    """
    if samples < 2 or len(times_ns) < _FEWEST * samples:
        return None
    found: list[Distribution] = [describe([t / 1e6 for t in times_ns[n::samples]]) for n in range(samples)]
    quick = min(range(samples), key=lambda n: found[n].median)
    slow = max(range(samples), key=lambda n: found[n].median)
    # The ends of the intervals: of many medians the extreme ones lie apart by chance alone.
    if not found[slow].has_interval or found[slow].low < _APART * found[quick].high:
        return None
    return (quick, found[quick].median), (slow, found[slow].median)


# --- where values matter ------------------------------------------------------------------------------------

# By name, as the ops of LiteRT's and ONNX's files have no traits: tfl.WHILE, onnx.NonMaxSuppression.
_LOOP = re.compile("^(stateless)?while$|^loop$|^(ref)?enter$", re.IGNORECASE)
_KINDS = {
    "the branches of": re.compile("^(stateless)?(if|case)$", re.IGNORECASE),
    "the choice of boxes by": re.compile("non_?max_?suppression|detection_?postprocess", re.IGNORECASE),
    "the sound's features by": re.compile(
        "audio_?spectrogram|mfcc|decode_?wav|rfft|^stft$|mel_?weight", re.IGNORECASE
    ),
    "the open size of": re.compile("^where$|^non_?zero$|^unique|^boolean_?mask$", re.IGNORECASE),
}


def value_dependent(subject: Subject) -> list[str]:
    """What in a model takes a time that depends on the numbers it is fed, in words."""
    from thinflow.bench.workload import lifted_graph, subject_graph

    try:
        graph = subject_graph(subject)
        # In the ops of its file nothing tells how often a loop turns.
        if graph.vocabulary and any(_LOOP.search(_plain(node)) for node in _nodes(graph)):
            with suppress(ThinflowError):
                graph = lifted_graph(subject)
        return list(_told(graph))
    except ThinflowError:
        return []


def _told(graph: Graph) -> Iterator[str]:
    nodes = list(_nodes(graph))
    found = {"the loop": [node for node in nodes if _turns_freely(graph, node)]}
    for what, names in _KINDS.items():
        found[what] = [node for node in nodes if names.search(_plain(node)) and not _selects(node)]
    for what, there in found.items():
        if there:
            more = f" and {len(there) - 1} more" if len(there) > 1 else ""
            yield f"{what} '{there[0].name}' ({_plain(there[0])}){more}"


def _turns_freely(graph: Graph, node: Node) -> bool:
    """Whether it is a loop that turns as often as its values say."""
    from thinflow.interpreter.turns import turns_of

    is_known = has(node.op, Trait.WHILE) and turns_of(graph, node) is not None
    return bool(_LOOP.search(_plain(node))) and not is_known


def _selects(node: Node) -> bool:
    """Whether it is a Where with something to choose from, which is as large as that."""
    return _plain(node).lower() == "where" and len(node.inputs) > 1


def _plain(node: Node) -> str:
    """Its op without the vocabulary in front."""
    return node.op.rpartition(".")[2]


def _nodes(graph: Graph) -> Iterable[Node]:
    """What its outputs need, and what functions hold."""
    from thinflow.ir.order import ancestors

    needed = ancestors([v.node for v in graph.outputs]) if graph.outputs else set(graph)
    yield from (node for node in graph if node in needed)
    for function in graph.functions.values():
        yield from function.graph
