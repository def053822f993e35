"""`thinflow import_pb_to_tensorboard`: TensorFlow's tool of that name, for models of every kind."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

EXAMPLES = """
  thinflow import_pb_to_tensorboard --model_dir=export --log_dir=logs
  thinflow import_pb_to_tensorboard --model_dir=frozen.pb --log_dir=logs --keep_weights=false
"""
FLAGS = OldFlags(
    "import_pb_to_tensorboard",
    {
        "model_dir": ("", "a SavedModel's folder, or any other model"),
        "log_dir": ("", "folder for the event file"),
        "tag_set": ("serve", "of a SavedModel, the graph with these tags"),
        "run_metadata": ("", "files with a RunMetadata message each, comma-separated"),
        "keep_weights": (True, "whether big constants keep their contents, which TensorBoard does not show"),
    },
    python=True,
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    values = FLAGS.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    for name in ("model_dir", "log_dir"):
        if not values[name]:
            print(f"the flag --{name} is required\n{FLAGS.usage()}", file=sys.stderr)
            return USAGE_EXIT
    from thinflow.cli._options import names
    from thinflow.compat.tensorboard import write_events

    log_dir = os.path.expanduser(str(values["log_dir"]))
    path = write_events(
        os.path.expanduser(str(values["model_dir"])),
        log_dir,
        tags=str(values["tag_set"]),
        run_metadata=names(str(values["run_metadata"])) or (),
        keep_weights=bool(values["keep_weights"]),
    )
    print(f"wrote {path}")
    print(f"Model Imported. Visualize by running: tensorboard --logdir={shlex.quote(log_dir)}")
    return 0
