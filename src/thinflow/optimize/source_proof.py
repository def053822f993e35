"""Proof of what was made of a lifted graph against the file itself, in the file's own runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from thinflow.analysis.precision import usual_tolerance
from thinflow.engines._child import TIMEOUT_SECONDS
from thinflow.errors import ThinflowError, VerificationError
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.load.frozen import SOURCE
from thinflow.optimize.eight_bit_check import is_repeatable
from thinflow.optimize.numeric_check import CALLS, CODES_TOLERANCE, detection_counts
from thinflow.optimize.samples import Samples, samples_for
from thinflow.transforms.quantized.grids import kept_grids, make_ends_float
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.optimize.beside_source import Apart, Made

_RUNS = 2
_SHOWN_TEXT = 120


@dataclass(frozen=True)
class SourceProof:
    """What came of comparing with the source file.

    Attributes:
        sentence: for people; "" for a graph that came from no such file.
        relative: the largest relative difference; None if nothing was compared.
        by_layer: whether every layer is quantized, was compared by itself, and is right.
    """

    sentence: str = ""
    relative: float | None = None
    by_layer: bool = False


def prove_beside_source(
    graph: Graph,
    made: Made | None = None,
    samples: Samples | None = None,
    *,
    may_differ: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> SourceProof:
    """Run a graph, or what was made of it, beside the file that the graph came from.

    Args:
        graph: as it was opened.
        made: a file or graph with the same inputs and outputs; default: the graph itself, in the interpreter.
        samples: for the graph; made up if there are none.
        may_differ: of a graph that was changed on the way here, perhaps on purpose: a difference is told, and
            is no error.
        timeout_seconds: for all runs.

    Raises:
        VerificationError: it gives other answers than the file; names the first tensor that differs.
    """
    source = graph.source
    if source is None:
        return SourceProof()
    if not source.engine:
        return SourceProof(f"was not compared with {source.name} itself: there is no {source.runtime} here")
    outputs = _comparable(graph)
    if not outputs:
        return SourceProof(f"was not compared with {source.name} itself: its answers differ from run to run")
    # Importing it takes as long as proving a small model, and many come from files without a runtime.
    from thinflow.optimize.beside_source import apart_from_source

    limit = max(CODES_TOLERANCE if source.has_codes else 0.0, usual_tolerance(graph)[0])
    try:
        feeds = _feeds(graph, samples)
        apart = apart_from_source(
            graph,
            graph if made is None else made,
            feeds,
            outputs,
            limit,
            timeout_seconds,
            made_up=samples is None or samples.synthetic,
            # A graph that was changed may well have other layers.
            by_layer=source.has_codes and not may_differ,
        )
    except ThinflowError as error:
        return SourceProof(f"was not compared with {source.name} itself: {_short(error.problem)}")
    if apart.ok:
        layers = apart.layers
        by_layer = layers is not None and layers.reach_ends and bool(layers.compared) and not layers.left
        return SourceProof(_agreement(graph, apart), apart.relative, by_layer)
    told = _disagreement(graph, apart)
    if may_differ:
        return SourceProof(told, apart.relative)
    raise VerificationError(
        f"what was made {told}",
        hint="please report this with the model; nothing was written."
        f" `thinflow run MODEL` runs the file itself in {source.runtime}",
    )


def note_proof(graph: Graph, samples: Samples | None = None, *, may_differ: bool = False) -> None:
    """Prove a graph beside its source, and let its facts say what came of it; see `prove_beside_source`."""
    proof = prove_beside_source(graph, samples=samples, may_differ=may_differ)
    if proof.sentence:
        graph.facts[SOURCE] = f"the graph {proof.sentence}"


def _short(problem: str) -> str:
    """The beginning of what a runtime said, in one line."""
    line = " ".join(problem.split())
    return line if len(line) <= _SHOWN_TEXT else f"{line[:_SHOWN_TEXT].rstrip()}..."


def _comparable(graph: Graph) -> list[Value]:
    """The outputs that are the same in every run, and that no runtime leaves unwritten in part."""
    spare = detection_counts(graph.outputs)
    ends = without_states(graph, graph.outputs)
    return [v for v in ends if v not in spare and is_repeatable(v, graph.inputs)]


def _feeds(graph: Graph, samples: Samples | None) -> Sequence[Mapping[Value, Array]]:
    if samples is None:
        samples = samples_for(graph, None, limit=CALLS)
    keeps = bool(graph.states) or any(n.op == "LiteRTVariable" for n in graph)
    return list(islice(samples, CALLS if keeps else _RUNS))


def _agreement(graph: Graph, apart: Apart) -> str:
    source = graph.source
    assert source is not None
    calls = f" over {apart.calls} calls in a row" if apart.in_a_row else ""
    layers = "" if apart.layers is None else apart.layers.sentence
    agreement = (
        f"agrees with {source.name} itself in {source.runtime}{calls},"
        f" largest relative difference {apart.relative:.2g}"
    )
    return f"{agreement}; {layers}" if layers else agreement


def _disagreement(graph: Graph, apart: Apart) -> str:
    source = graph.source
    assert source is not None
    gap, first = apart.found, apart.first
    wrong = None if apart.layers is None else apart.layers.wrong
    if wrong is not None:
        whose = f"{source.name} itself in {source.runtime}"
        told = f"computes '{wrong.name}' ({wrong.op}) otherwise than {whose}: {wrong.problem}"
        return f"{told}; the layer was fed with the file's own tensors"
    where = f"'{apart.output}'{list(gap.index)}: {gap.after} and not {gap.before}"
    told = f"gives other answers than {source.name} itself in {source.runtime}, at {where}"
    if first is None:
        return f"{told} (relative difference {apart.relative:.2g})"
    return f"{told}; the first tensor that differs is '{first.name}' ({first.op}), by {first.relative:.2g}"


def prove_and_free(graph: Graph, *, verify: bool = True, may_differ: bool = False) -> bool:
    """Let a graph of a quantized file take and give real numbers, once it is proven beside the file.

    The ranges of its values stay, and count as such that training chose. Samples are then of real numbers,
    as those of any other model.

    Args:
        graph: edited.
        verify: whether to prove it.
        may_differ: as for `prove_beside_source`.

    Returns:
        True if it was of a quantized file, and needs no other proof.
    """
    if not kept_grids(graph):
        return False
    if verify:
        note_proof(graph, None, may_differ=may_differ)
    ends = make_ends_float(graph)
    if graph.source is not None and (ends.inputs or ends.outputs):
        told = (*graph.source.assumed, "codes of inputs and outputs are float32 from here on")
        graph.source = replace(graph.source, assumed=told)
    return True
