"""TensorFlow's own Graph Transform Tool: transform.py IN.pb OUT.pb INPUT OUTPUT TRANSFORMS."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tensorflow.python.util import _pywrap_transform_graph as tool  # noqa: TID251


def main() -> None:
    source, target, feed, fetch, transforms = sys.argv[1:]
    begin = time.perf_counter()
    arguments = (text.encode() for text in (feed, fetch, transforms))
    Path(target).write_bytes(tool.TransformGraphWithStringInputs(Path(source).read_bytes(), *arguments))
    print(json.dumps({"seconds": time.perf_counter() - begin}))


main()
