"""What can be asked of a Core ML package."""

from __future__ import annotations

from dataclasses import dataclass

TARGETS = ("iOS15", "iOS16", "iOS17", "iOS18")
"""Systems that a package can be made for; those of the Mac are macOS12 to macOS15, in this order."""
PRECISIONS = ("float32", "float16")
"""float32 is the default, as a conversion promises the model's own answers. The Neural Engine computes in
float16 alone, which moves them; how far is printed."""
WEIGHTS = ("float", "int8")


@dataclass(frozen=True)
class Options:
    """Options of a package.

    Attributes:
        precision: in which floats are computed: one of `PRECISIONS`.
        weights: how weights are stored: one of `WEIGHTS`; "int8" has a scale for each channel.
        target: the oldest system that runs it: one of `TARGETS`.
        images: whether inputs that are pictures take pictures.
        mean, std: what the model computes with is (pixel - mean) / std, one number or one for each channel;
            none if that is as the graph's usage says.
        labels: names of classes for a classifier; none for a model that gives numbers.
    """

    precision: str = PRECISIONS[0]
    weights: str = WEIGHTS[0]
    target: str = TARGETS[1]
    images: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
