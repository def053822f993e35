"""`thinflow pack`: a model with a checksum, or encrypted."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace

from thinflow.cli._options import add_key_file, add_model, add_output
from thinflow.errors import ParameterError

EXAMPLES = """
  thinflow pack model.pb model.tfpack
  thinflow pack model.pb model.tfpack --encrypt --key-file secret.key
  thinflow pack model.tflite model.tfpack --encrypt
"""


def add_arguments(p: ArgumentParser) -> None:
    add_model(p, ".tflite and .onnx files are packed as they are")
    add_output(p, "the package to write, for example model.tfpack")
    p.add_argument("--encrypt", action="store_true", help="encrypt with AES-256-GCM")
    add_key_file(p)
    p.add_argument("--keep-names", action="store_true", help="keep the names of the inner nodes")


def run(args: Namespace) -> int:
    from thinflow.api import pack
    from thinflow.cli._console import human_bytes

    if args.key_file and not args.encrypt:
        raise ParameterError("a key file goes with --encrypt", hint="add --encrypt, or leave the key out")
    key = secret(args.key_file, twice=True) if args.encrypt else None
    size = pack(args.model, args.output, key=key, obfuscate=not args.keep_names)
    how = "encrypted with AES-256-GCM" if args.encrypt else "in the clear, with a checksum"
    print(f"wrote {args.output}: {human_bytes(size)}, {how}")
    # By the variable, as `inspect` has no flag for a key.
    given = f"THINFLOW_KEY_FILE={shlex.quote(args.key_file)} " if args.key_file else ""
    print(f"next: {given}thinflow inspect {shlex.quote(args.output)}")
    return 0


def secret(path: str | None, *, twice: bool = False) -> bytes:
    """The key from a file, the environment or the terminal.

    Raises:
        ParameterError: there is none, or it was typed differently the second time.
    """
    from thinflow.api import read_key_file

    if path:
        return read_key_file(path)
    if file := os.environ.get("THINFLOW_KEY_FILE"):
        return read_key_file(file)
    if text := os.environ.get("THINFLOW_KEY"):
        return text.encode()
    if not sys.stdin.isatty():
        raise ParameterError("no key is there", hint="give --key-file, or set THINFLOW_KEY")
    from getpass import getpass

    typed = getpass("key: ")
    # A slip while encrypting would lock the model up for good.
    if twice and getpass("again: ") != typed:
        raise ParameterError("the two keys differ", hint="type the same twice")
    return typed.encode()
