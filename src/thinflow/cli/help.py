"""`thinflow help`: the overview, or what a command takes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

from thinflow.cli._commands import COMMANDS, DROP_INS, hint_for_unknown, module_of, overview
from thinflow.cli._options import add_json

EXAMPLES = """
  thinflow help
  thinflow help optimize
  thinflow help saved_model_cli show
  thinflow help --man run     # as a manual page
  thinflow help --json        # all commands, flags, defaults and examples, for programs
"""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("command", nargs="*", help="what to explain (default: list all commands)")
    p.add_argument("--man", action="store_true", help="as a manual page, in a terminal read by man")
    add_json(p)


def run(args: Namespace) -> int:
    if args.command and args.command[0] not in COMMANDS:
        return _tell_unknown(args.command[0])
    if args.json:
        return _print_data(args.command)
    if args.man:
        return _print_page(args.command)
    if not args.command:
        print(overview())
        return 0
    verb, *rest = args.command
    if verb in DROP_INS:
        return int(getattr(import_module(module_of(verb)), verb)([*rest, "--help"]))
    from thinflow.cli._parser import parser_of

    parser_of(verb).print_help()
    return 0


def _tell_unknown(verb: str) -> int:
    import sys

    from thinflow.cli._console import print_lines

    lines = [f"error: there is no command {verb!r}", f"hint: {hint_for_unknown(verb)}"]
    print_lines(lines, sys.stderr)
    return 2


def _print_data(words: list[str]) -> int:
    import json

    from thinflow.cli._reference import command, command_line

    print(json.dumps(command(words[0]) if words else command_line(), indent=2))
    return 0


def _print_page(words: list[str]) -> int:
    """The roff of a page; in a terminal the page."""
    import sys

    from thinflow.cli._manual import page

    text = page(words[0] if words else "")
    if sys.stdout.isatty():
        import shutil
        import subprocess

        if shutil.which("man"):
            return subprocess.run(["man", "-l", "-"], input=text.encode(), check=False).returncode
    print(text, end="")
    return 0
