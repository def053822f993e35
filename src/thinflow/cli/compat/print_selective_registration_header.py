"""`thinflow print_selective_registration_header`: TensorFlow's tool of that name, with its flags."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

EXAMPLES = """
  thinflow print_selective_registration_header --graphs=a.pb,b.pb > ops_to_register.h
  thinflow print_selective_registration_header --graphs=a.pb --ops_list > ops.json
  thinflow print_selective_registration_header --graphs=ops.json \
--proto_fileformat=ops_list > ops_to_register.h
"""
FLAGS = OldFlags(
    "print_selective_registration_header",
    {
        "graphs": ("", "models, comma-separated"),
        "proto_fileformat": ("rawproto", "rawproto, textproto or ops_list"),
        "default_ops": ("NoOp:NoOp,_Recv:RecvOp,_Send:SendOp", "pairs Op:Class always registered; or all"),
        "ops_only": (False, "register all kernels of the ops: needs no knowledge of a release"),
        "release": ("", "TensorFlow release whose kernel classes to name; default: the newest known"),
        "ops_list": (False, "print the pairs as JSON instead of a header"),
    },
    python=True,
    examples=EXAMPLES,
)


def print_selective_registration_header(argv: Sequence[str]) -> int:
    flags = FLAGS.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not flags["graphs"]:
        print(f"--graphs is needed.\n{FLAGS.usage()}", file=sys.stderr)
        return USAGE_EXIT
    from thinflow.cli._options import names
    from thinflow.compat.requirements import selective_registration

    found = selective_registration(
        names(str(flags["graphs"])) or [],
        file_format=str(flags["proto_fileformat"]),
        default_ops=str(flags["default_ops"]),
        ops_only=bool(flags["ops_only"]),
        release=str(flags["release"]) or None,
        as_list=bool(flags["ops_list"]),
    )
    for warning in found.warnings:
        print_lines([f"warning: {warning}"], sys.stderr)
    print(found.text, end="")
    return 0
