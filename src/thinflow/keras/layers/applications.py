"""Layers that Keras defines for its own applications, and does not offer under `keras.layers`."""

from __future__ import annotations

from thinflow.keras.call import Call
from thinflow.keras.registry import Result, layer


@layer("CustomScaleLayer", "Custom>CustomScaleLayer")
def custom_scale(c: Call) -> Result:
    """InceptionResNetV2: x + scale * residual."""
    if len(c.xs) != 2:
        raise c.refuse(f"it takes 2 inputs, not {len(c.xs)}")
    return c.emit("AddV2", c[0], c.emit("Mul", c[1], c.number("scale", 1.0)))


@layer("LayerScale", weights="gamma", ignores=("init_values",))
def layer_scale(c: Call) -> Result:
    """ConvNeXt: x times a factor for each channel."""
    return c.emit("Mul", c[0], c.weight("gamma", (c.integer("projection_dim"),)))


@layer("StochasticDepth", "DropPath", ignores=("drop_path_rate", "rate"), masks="pass")
def stochastic_depth(c: Call) -> Result:
    """ConvNeXt: drops whole samples while training."""
    return c.unchanged()
