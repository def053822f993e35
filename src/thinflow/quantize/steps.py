"""Steps in which layers are looked at one after the other, each in the network as it is made by then.

Layers of one step are run at a time and know nothing of each other's changes. Where one reads, through
whatever lies between, what another of the same step makes, only the first may make up for what was lost in
front of both: else it is made up for twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeVar

from thinflow.onnx import program as onnx
from thinflow.quantize.grams import Layer
from thinflow.quantize.macs import main_block, multiplications
from thinflow.tflite import model as tflite

K = TypeVar("K", bound=Hashable)

# Of all steps together, about six seconds of LiteRT's integer kernels on two cores. Each runs half of the
# network on average.
_WORK = 80e9
_FEWEST, _MOST = 8, 64


class Step(NamedTuple):
    """Layers that are looked at together.

    Attributes:
        keys: of all.
        first: those that read nothing another of them makes.
    """

    keys: list[Any]
    first: frozenset[Any]


def steps_of(
    program: tflite.Program | onnx.Program, layers: Mapping[K, Layer], samples: int, budget: float
) -> list[Step]:
    """Steps in running order, as many as can be afforded.

    Args:
        samples: that are run in each.
        budget: bytes of statistics that a step may hold; a single layer may have more.
    """
    levels = _levels(program, layers)
    each = max(sum(multiplications(program).values()), 1)
    most = min(max(int(_WORK / (each * max(samples, 1))), _FEWEST), _MOST)
    together = max(-(-len(levels) // most), 1)
    steps: list[Step] = []
    for start in range(0, len(levels), together):
        keys: list[K] = []
        held, first = 0.0, frozenset(levels[start])
        for key in (key for level in levels[start : start + together] for key in level):
            if keys and held + layers[key].bytes > budget:
                steps.append(Step(keys, first.intersection(keys)))
                # What comes after sees what was done to those before it, but not to others of its level.
                keys, held, first = [], 0.0, frozenset(_level_of(levels, key))
            keys.append(key)
            held += layers[key].bytes
        steps.append(Step(keys, first.intersection(keys)))
    return steps


def _level_of(levels: list[list[K]], key: K) -> list[K]:
    return next(level for level in levels if key in level)


def _levels(program: tflite.Program | onnx.Program, layers: Mapping[K, Layer]) -> list[list[K]]:
    """Layers by how many others lie in front of them, on the longest way."""
    keys = {product.operator: key for key, layer in layers.items() for product in layer.products}
    depths: dict[Any, int] = {}
    found: dict[K, int] = {}
    for operator in main_block(program).operators:
        depth = max((depths.get(t, 0) for t in operator.reads()), default=0)
        key = keys.get(operator)
        if key is not None:
            # Layers that share weights are one, and the last of them tells where.
            depth += 1
            found[key] = max(found.get(key, 0), depth)
        depths.update(dict.fromkeys(operator.outputs, depth))
    levels: dict[int, list[K]] = {}
    for key, depth in found.items():
        levels.setdefault(depth, []).append(key)
    return [levels[depth] for depth in sorted(levels)]
