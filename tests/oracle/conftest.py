"""Nothing here can even be imported without TensorFlow."""

from __future__ import annotations

import importlib.util
import os

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]

# TensorFlow turns these kernels on by itself only where the processor has AVX-512 VNNI. The others refuse
# what these take (dilated Conv3D, strides that differ) and round otherwise: the oracle would change with the
# machine.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
