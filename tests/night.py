"""How much is tried: a part in each run of the tests, all of it at night (.ci/nightly)."""

from __future__ import annotations

import os

AT_NIGHT = bool(os.environ.get("THINFLOW_NIGHT"))

ALL_NETWORKS = bool(os.environ.get("THINFLOW_ALL_NETWORKS"))
"""Beside TensorFlow, Keras and PyTorch: all networks and all cases, those of minutes included."""
