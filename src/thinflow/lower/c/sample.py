"""An input and the answer to it, for a test on the device."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.typing import Array

LITERT, INTERPRETER = "LiteRT", "thinflow's interpreter"


@dataclass
class Sample:
    """Arrays for each input, and for each output what the network is to answer.

    Attributes:
        by: who answers so.
    """

    inputs: list[Array]
    outputs: list[Array]
    by: str = LITERT
