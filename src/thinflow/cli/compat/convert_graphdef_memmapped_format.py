"""`thinflow convert_graphdef_memmapped_format`: TensorFlow's tool of that name."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from thinflow.cli._oldflags import OldFlags, is_help

USAGE_EXIT = 255  # the original's -1, as a shell sees it
_LIMIT = "min_conversion_tensor_size"
EXAMPLES = """
  thinflow convert_graphdef_memmapped_format --in_graph=frozen.pb --out_graph=frozen.mmpb
  thinflow convert_graphdef_memmapped_format --in_graph=frozen.pb --out_graph=frozen.mmpb \
--min_conversion_tensor_size=1000
"""
FLAGS = OldFlags(
    "convert_graphdef_memmapped_format",
    {
        "in_graph": ("", "input graph file name"),
        "out_graph": ("", "output package file name"),
        _LIMIT: (10_000, "constants of fewer bytes stay in the graph"),
    },
    aliases={"min_conversion_size_bytes": _LIMIT},
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("in_graph", "out_graph"):
        if not values[name]:
            print(f"{name} can't be empty.\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    limit = int(values[_LIMIT])
    if limit <= 0:
        print(f"{_LIMIT} must be greater than 0.\n{FLAGS.usage()}", file=sys.stderr)
        return USAGE_EXIT
    return _convert(
        os.path.expanduser(str(values["in_graph"])), os.path.expanduser(str(values["out_graph"])), limit
    )


def _convert(source: str, target: str, limit: int) -> int:
    from thinflow.cli._console import human_bytes
    from thinflow.compat.memmapped import convert_memmapped

    written = convert_memmapped(source, target, min_bytes=limit)
    print(f"Converted {written.converted} nodes")
    print(
        f"wrote {target}: {human_bytes(written.size_bytes)}, {human_bytes(written.mapped_bytes)} of it "
        f"mapped in {written.regions} region{'s' if written.regions != 1 else ''}"
    )
    print(f"next: thinflow benchmark {shlex.quote(target)}")
    return 0
