"""The float graph in the words it came in, for the .pb file beside the models."""

from __future__ import annotations

from thinflow.analysis.shapes import port_count
from thinflow.compare.output_comparer import OutputComparer
from thinflow.formats.graphdef import serialized_size
from thinflow.optimize.samples import Samples
from thinflow.rewrite.runner import Result, run
from thinflow.transforms import resolve
from thinflow.transforms.catalogue.pipelines import AS_IT_CAME


def as_it_came(result: Result, samples: Samples, *, verify: bool = True) -> Result:
    """The graph with frames, Switch and Merge again where it had them; its ledger with that step.

    Old runtimes know no other loops and branches. The result's own graph stays as it is.

    Args:
        result: of `float_graph`.
        samples: for the result's graph; the first one verifies the step.
        verify: whether to.
    """
    first = next(iter(samples), None) if verify else None
    comparer = None if first is None else OutputComparer([{v.name: a for v, a in first.items()}])
    back = run(
        result.graph, resolve(AS_IT_CAME), comparer=comparer, port_count=port_count, size_of=serialized_size
    )
    (step,) = back.steps
    if not step.changes and not step.trace.left:
        return result
    return Result(back.graph, [*result.steps, step], result.note)
