"""How much is tried: a part in each run of the tests, all of it at night (.ci/nightly)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

AT_NIGHT = bool(os.environ.get("THINFLOW_NIGHT"))

ALL_NETWORKS = bool(os.environ.get("THINFLOW_ALL_NETWORKS"))
"""Beside TensorFlow, Keras and PyTorch: all networks and all cases, those of minutes included."""


def some(cases: Sequence[T], of: int) -> list[T]:
    """One of so many cases by day, from the first on, and all of them at night."""
    return [*cases] if AT_NIGHT else [*cases[::of]]
