"""How much is tried: a part in each run of the tests, all of it at night (.ci/nightly)."""

from __future__ import annotations

import os

AT_NIGHT = bool(os.environ.get("THINFLOW_NIGHT"))
