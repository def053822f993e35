"""Nothing here can even be imported without TensorFlow."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]
