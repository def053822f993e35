"""The argument parser every command gets."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from thinflow.cli._examples import laid_out
from thinflow.errors import ThinflowError, closest

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEANT = {"report": ("html",), "page": ("html",)}
"""Other words for flags, which are spelt quite unlike them."""


class _Layout(argparse.RawDescriptionHelpFormatter):
    """argparse's own, which would import shutil and all compressors with it to ask for the width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width of the terminal; 80 if there is none. The variable COLUMNS overrides it."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        # The stream that the process began with: stdout is behind a gate by now, or may be replaced.
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def parser_of(verb: str) -> Parser:
    """The parser of a command that is no drop-in of an old tool."""
    from importlib import import_module

    from thinflow.cli._commands import COMMANDS, module_of

    module = import_module(module_of(verb))
    parser = Parser(verb, COMMANDS[verb], getattr(module, "EXAMPLES", ""))
    module.add_arguments(parser)
    return parser


class WrongUsage(SystemExit):
    """A command that cannot be read; ends with code 2.

    Attributes:
        message: what is wrong, in one line.
        hint: the next step.
        verb: the words of the command behind `thinflow`.
        unknown: the flag that it does not have; "" if that is not what is wrong.
    """

    def __init__(self, message: str, hint: str, verb: str, unknown: str = "") -> None:
        super().__init__(message)
        self.code = 2
        self.message = message
        self.hint = hint
        self.verb = verb
        self.unknown = unknown


class OutputFlag(argparse._StoreAction):
    """`-o`, which may stand for the word behind the model that says where to write.

    Attributes:
        word: the name of that argument; "" if there is none.
        needed: whether one of both must be given.
    """

    word = ""
    needed = False


class Parser(argparse.ArgumentParser):
    """argparse with thinflow's manners: no abbreviated flags, our error layout, our errors kept.

    Usage errors are `WrongUsage`, which leaves with code 2. A `type=` function may raise a ThinflowError;
    that one passes through with its hint, where plain argparse would replace it by "invalid value" since
    some are ValueErrors.
    """

    def __init__(self, verb: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=f"thinflow {verb}",
            description=description,
            epilog=f"examples:\n{laid_out(examples)}" if examples else None,
            formatter_class=_Layout,
            allow_abbrev=False,
        )
        self.verb = verb
        self.examples = examples
        self._words: Sequence[str] = ()
        # What argparse takes for a word though it begins with a dash: numbers, and `-.onnx`, which is
        # standard output in that format.
        self._negative_number_matcher = re.compile(r"^-\d+$|^-\d*\.\d+$|^-\.[a-z]\w*$")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, with words and flags in any order; what is unknown is told by `error`."""
        self._words = list(args or ())
        # Old argparse loses the mark behind which nothing is a flag if it reads in two rounds.
        read = self.parse_known_args if "--" in self._words else self.parse_known_intermixed_args
        parsed, unknown = read(self._words, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        for action in self._actions:
            if isinstance(action, OutputFlag) and action.word:
                self._settle(parsed, action)
        return parsed

    def _settle(self, parsed: argparse.Namespace, flag: OutputFlag) -> None:
        """Where to write, whichever way it was said."""
        given = [
            name for name in (getattr(parsed, flag.word), getattr(parsed, flag.dest)) if name is not None
        ]
        if len(given) > 1:
            self.error(f"two outputs are given: {given[0]} and {given[1]}")
        if flag.needed and not given:
            self.error(f"the following arguments are required: {flag.word}")
        delattr(parsed, flag.dest)
        setattr(parsed, flag.word, given[0] if given else None)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = self._words or list(args or ())
        return super().parse_known_args(args, namespace)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as e:
            # argparse has turned our error into its own; ours is what was being handled then.
            if isinstance(e.__context__, ThinflowError):
                raise e.__context__ from None
            raise

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        what = "/".join(action.option_strings) or action.metavar or action.dest
        told = f"{what} {value}: it is one of {', '.join(choices)}"
        raise WrongUsage(told, closest(str(value), choices) or self._lists_all(), self.verb)

    def error(self, message: str) -> NoReturn:
        unknown = self._unknown_flag()
        if not unknown:
            raise WrongUsage(message, self._lists_all(), self.verb)
        # A slip in a flag shows as something else that is missing, too; the slip is what is wrong.
        if not message.startswith("unrecognized"):
            message = f"unrecognized arguments: {unknown}"
        raise WrongUsage(message, self._meant(unknown) or self._lists_all(), self.verb, unknown)

    def _meant(self, unknown: str) -> str:
        """The flags that are spelt nearly so; "" if none is."""
        import difflib

        # The dashes are no likeness.
        listed = [s[2:] for action in self._actions for s in action.option_strings if s.startswith("--")]
        word = unknown.lstrip("-")
        near = [name for name in _MEANT.get(word, ()) if name in listed]
        near = near or difflib.get_close_matches(word, listed, n=2, cutoff=0.65)
        return f"did you mean {' or '.join(f'--{name}' for name in near)}?" if near else ""

    def _lists_all(self) -> str:
        return f"'{self.prog} --help' lists the options"

    def _unknown_flag(self) -> str:
        """The first word that looks like a flag and is none; "" if all are known."""
        known = {*self._option_string_actions}
        for word in self._words:
            if word == "--":
                break
            name = word.partition("=")[0]
            looks = name.startswith("--") or (name.startswith("-") and name[1:2].isalpha())
            # One dash may stand before a letter with its value.
            if looks and not {name, name if name.startswith("--") else name[:2]} & known:
                return name
        return ""
