"""What a model's file says of its use, for pictures that are fed and classes that are counted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec
from thinflow.ir.usage import BGR, IMAGE, InputUsage, Usage, Words
from thinflow.load.graphs import load
from thinflow.load.usage import completed

if TYPE_CHECKING:
    from thinflow.engines.session import Session
    from thinflow.quantize.sample_files import Scaling

Grid = tuple[float, int]
"""Scale and zero point of codes."""
_WHOLE = {"uint8": 0, "int8": 128}
"""Types of codes, and what is subtracted from a pixel to be one."""


def usage_of(model: str | os.PathLike[str] | Graph) -> Usage:
    """The usage of a model, without what is assumed of a graph of TensorFlow's: tools for those have defaults
    of their own. Empty if the model cannot be read, which whoever opens it says.
    """
    try:
        graph = model if isinstance(model, Graph) else load(model, lift=False)
    except ThinflowError:
        return Usage()
    usage = completed(graph)
    if graph.source is not None or graph.vocabulary:
        return usage
    return replace(usage, inputs={n: u for n, u in usage.inputs.items() if u.said or not u.assumed})


def picture_usage(usage: Usage, name: str, spec: TensorSpec, grid: Grid | None = None) -> InputUsage | None:
    """How an input is made of pixels 0..255; None if nothing is known, or it takes the pixels as codes.

    Args:
        usage: of the model.
        name, spec: of the input.
        grid: of its codes, if it has them.
    """
    found = usage.input(name)
    if found is None and len(usage.inputs) == 1:
        # A signature calls it otherwise.
        found = next(iter(usage.inputs.values()))
    if found is None or found.kind not in ("", IMAGE):
        return None
    if spec.dtype is not None and spec.dtype.is_integer and _takes_pixels(found, spec.dtype.name, grid):
        return replace(found, mean=(), std=())
    return found


def _takes_pixels(usage: InputUsage, element: str, grid: Grid | None) -> bool:
    """True if scaling pixels and putting them on a grid leaves them as they are, but for one code: what the
    metadata of LiteRT means for an eight-bit model.
    """
    if grid is None or not usage.is_scaled:
        return True
    low = _WHOLE.get(element)
    if low is None:
        return False
    pixels = np.arange(256.0)
    pairs = np.broadcast_arrays(np.array(usage.mean), np.array(usage.std))
    return all(
        np.abs((pixels - mean) / std / grid[0] + grid[1] - (pixels - low)).max() < 1.5
        for mean, std in zip(*pairs, strict=True)
    )


def scaling_of(
    usage: Usage, inputs: Mapping[str, TensorSpec], grids: Mapping[str, Grid] | None = None
) -> Scaling | None:
    """How pictures become the one input that takes them; None if nothing is known."""
    from thinflow.quantize.sample_files import Scaling

    for name, spec in inputs.items():
        found = picture_usage(usage, name, spec, (grids or {}).get(name))
        if found is None or (len(inputs) > 1 and usage.input(name) is None):
            continue
        element = "" if spec.dtype is None else spec.dtype.name
        if not found.is_scaled and found.kind == IMAGE and element in _WHOLE:
            return Scaling(_WHOLE[element], 1.0, found.colours == BGR)
        if found.is_scaled and (spec.dtype is None or spec.dtype.is_floating):
            return Scaling(_number(found.mean), _number(found.std), found.colours == BGR)
    return None


def _number(values: tuple[float, ...]) -> float | tuple[float, ...]:
    return values[0] if len(values) == 1 else values


def labels_of(usage: Usage, outputs: Mapping[str, TensorSpec]) -> Words | None:
    """The names of the classes that the first output gives scores of; None if the file has none for it."""
    name, spec = next(iter(outputs.items()), ("", None))
    if spec is None:
        return None
    width = spec.shape[-1] if spec.shape else None
    found = usage.labels(name, width)
    if found is None and len(usage.outputs) == len(outputs) == 1:
        found = usage.labels(next(iter(usage.outputs)), width)
    return found


def taken_text(usage: Usage, labels: Words | None, scaling: bool) -> str:
    """What was taken from the file, in one line; "" for nothing."""
    parts = [] if labels is None else [f"{len(labels.words)} labels ({labels.name})"]
    pictures = [u for u in usage.inputs.values() if u.is_scaled and u.kind in ("", IMAGE)]
    if scaling and pictures:
        parts.append(scaling_text(pictures[0]))
    return f"from the model's file: {', '.join(parts)}" if parts else ""


def pictures_of(session: Session, paths: Mapping[str, str]) -> tuple[Scaling | None, str]:
    """How the pictures among some files become inputs, and what to say about it; None and "" if nothing is
    known, or none of them is a picture.

    Args:
        session: runs the model.
        paths: of files by name of input.
    """
    from thinflow.quantize.sample_files import PICTURES

    fed = {n: session.spec(n) for n, path in paths.items() if Path(path).suffix.lower() in PICTURES}
    if not fed:
        return None, ""
    usage = usage_of(session.path if session.graph is None else session.graph)
    scaling = scaling_of(usage, fed, session.grids)
    return scaling, taken_text(usage, None, scaling is not None)


def scaling_text(usage: InputUsage) -> str:
    """`pixels (x - 127.5) / 127.5 (TFLITE_METADATA)`; says what is assumed."""
    why = f"assumed: {usage.assumed}" if usage.assumed else usage.said
    pixels = usage.formula if usage.formula != "x" else "0..255 as they are"
    own = f", of which the model computes {usage.own}" if usage.own else ""
    return f"pixels {pixels}{own}" + (f" ({why})" if why else "")
