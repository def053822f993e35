"""`thinflow compare_graphs`: TensorFlow's tool of that name; says how two GraphDefs first differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE_EXIT = 255  # the original's -1, as a shell sees it


def main(argv: Sequence[str]) -> int:
    everything = "--all" in argv
    files = [a for a in argv if a != "--all"]
    if any(a.lstrip("-") in {"help", "h"} for a in files):
        print("usage: thinflow compare_graphs A B [--all]\n\nExit 0: equal, 1: different, 255: a problem.")
        return 0
    if len(files) != 2:
        print("compare_graphs expects two file names as arguments", file=sys.stderr)
        return USAGE_EXIT
    import thinflow
    from thinflow.errors import ThinflowError

    try:
        differences = thinflow.compare(*files)
    except ThinflowError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE_EXIT
    if not differences:
        print("Graphs are equal.")
        return 0
    print("\n".join(differences if everything else differences[:1]))
    return 1
