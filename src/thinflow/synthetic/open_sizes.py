"""Errors on made-up inputs, told with the inputs whose sizes had to be made up too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from thinflow.analysis.shapes import declared_spec
from thinflow.errors import EngineUnavailable, FeedError, NodeError, ThinflowError, UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import RESOURCE, TensorSpec, shape_text
from thinflow.synthetic.feeds import concrete_shape


def open_sizes(inputs: Sequence[Value]) -> dict[str, TensorSpec]:
    """The inputs of which more than the batch is left open: name -> what is known."""
    specs = {v.name: declared_spec(v) for v in inputs if declared_spec(v).dtype is not RESOURCE}
    return {n: s for n, s in specs.items() if s.shape is None or None in s.shape[1:]}


@contextmanager
def naming_open_sizes(unsure: Mapping[str, TensorSpec]) -> Iterator[None]:
    """Errors that a run on made-up inputs raises, as errors of the inputs if their sizes are not known.

    Args:
        unsure: as `open_sizes` finds them; if there are none, errors pass as they are.

    Raises:
        FeedError: in place of what the run raised; its hint gives the flags to write.
    """
    try:
        yield
    except ThinflowError as error:
        explained = explain_open_sizes(error, unsure)
        if explained is None:
            raise
        raise explained from error


def explain_open_sizes(error: ThinflowError, unsure: Mapping[str, TensorSpec]) -> FeedError | None:
    """The error of a run on made-up inputs as one of the inputs; None if their sizes are all known."""
    may_be_sizes = isinstance(error, NodeError | FeedError | EngineUnavailable)
    if not unsure or not may_be_sizes or isinstance(error, UnsupportedOp):
        return None
    # Nobody can tell which of them is to blame; the flags of all of them are in the hint.
    name, spec = next(iter(unsure.items()))
    tried = shape_text(concrete_shape(spec))
    if spec.shape is None:
        problem = f"the graph does not say what shape '{name}' has, and {tried} does not fit"
    else:
        problem = f"'{name}' has the shape {shape_text(spec.shape)}, and made-up sizes, {tried}, do not fit"
    flags = " ".join(f"--shape {n}={_sizes(s)}" for n, s in unsure.items())
    hint = f"say what sizes it has, for example {flags}; or feed your own"
    return FeedError(f"{problem}: {error.message}", hint=hint)


def _sizes(spec: TensorSpec) -> str:
    """Sizes to start from: what is known, and common ones for a picture."""
    if spec.shape is None:
        return "1,224,224,3"
    picture = len(spec.shape) == 4
    common = [1, 224, 224, 3] if picture else [1, *[16] * (len(spec.shape) - 1)]
    return ",".join(str(g if n is None else n) for n, g in zip(spec.shape, common, strict=True))
