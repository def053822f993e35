"""Made-up inputs: numbers, text, and the files and messages that models take apart."""

from thinflow.synthetic.feeds import (
    MAX_BYTES,
    MAX_RANK,
    explain_open_sizes,
    naming_open_sizes,
    override_shapes,
    synthetic_array,
    synthetic_feeds,
)
from thinflow.synthetic.files import DEFAULT_SIZE, synthetic_png, synthetic_wav
from thinflow.synthetic.integers import amounts_for
from thinflow.synthetic.sizes import USUAL, concrete_shape, fitting_specs, likely_shape, open_sizes

__all__ = [
    "DEFAULT_SIZE",
    "MAX_BYTES",
    "MAX_RANK",
    "USUAL",
    "amounts_for",
    "concrete_shape",
    "explain_open_sizes",
    "fitting_specs",
    "likely_shape",
    "naming_open_sizes",
    "open_sizes",
    "override_shapes",
    "synthetic_array",
    "synthetic_feeds",
    "synthetic_png",
    "synthetic_wav",
]
