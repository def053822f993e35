"""`thinflow unpack`: the model of a package, in the clear."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace

from thinflow.cli._options import add_key_file, add_output

EXAMPLES = """
  thinflow unpack model.tfpack model.pb
  thinflow unpack model.tfpack model.pb --key-file secret.key
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("package", help="a .tfpack file")
    add_output(p, "the model to write")
    add_key_file(p)


def run(args: Namespace) -> int:
    from thinflow.api import read_key_file, unpack
    from thinflow.cli._console import human_bytes

    key = read_key_file(args.key_file) if args.key_file else None
    size = unpack(args.package, args.output, key=key)
    print(f"wrote {args.output}: {human_bytes(size)}, in the clear")
    print(f"next: thinflow inspect {shlex.quote(args.output)}")
    return 0
