"""`thinflow label_wav`: TensorFlow's example of that name, with its flags and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help
from thinflow.cli.compat._labels import COMMON, print_labels, required

EXAMPLES = """
  thinflow label_wav --graph=model.pb --wav=clip.wav --labels=labels.txt
  thinflow label_wav --graph=model.pb --wav=clips/ --labels=labels.txt --how_many_labels=1 --csv
  thinflow label_wav --graph=model.pb --wav=clip.wav --labels=labels.txt --input_name=wav_data:0 \
--output_name=labels_softmax:0
"""
FLAGS = OldFlags(
    "label_wav",
    {
        "wav": ("", "sound to label, or a folder of sounds"),
        "graph": ("", "model to run"),
        "labels": ("", "names of the classes, one a line"),
        "input_name": ("", "name of the input; default: wav_data:0, or the model's own"),
        "output_name": ("", "name of the scores; default: labels_softmax:0, or the model's own"),
        "how_many_labels": (3, "how many labels"),
        "sample_rate": (16000, "samples a second that the model expects; 0: any"),
        "layout": ("python", "of the output: python, or cpp as label_wav.cc prints it"),
        **COMMON,
    },
    {"l": "labels", "la": "labels"},  # of the flags that the original had, only this one begins so
    python=True,
    examples=EXAMPLES,
)


def main(argv: Sequence[str]) -> int:
    flags = FLAGS.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not required(FLAGS, flags, "wav", "graph", "labels"):
        return USAGE_EXIT
    from thinflow.compat.labels import label_sounds

    found = label_sounds(
        os.path.expanduser(str(flags["graph"])),
        os.path.expanduser(str(flags["wav"])),
        os.path.expanduser(str(flags["labels"])),
        input_name=str(flags["input_name"]),
        output_name=str(flags["output_name"]),
        count=int(flags["how_many_labels"]),
        sample_rate=int(flags["sample_rate"]),
        note=lambda line: print_lines([line], sys.stderr),
        engine=str(flags["engine"]),
        threads=max(1, int(flags["num_threads"])),
    )
    if flags["layout"] == "cpp":
        print_labels(found, flags, lambda g: f"{g.label} ({g.index}): {g.score:.6g}")
    else:
        # As label_wav.py prints them.
        print_labels(found, flags, lambda g: f"{g.label} (score = {g.score:.5f})")
    return 0
