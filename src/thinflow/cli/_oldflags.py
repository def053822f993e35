"""The flag parser of TensorFlow's tools: `--flag=value`, one dash or two; with the space form for all, as
their tools in Python had it. Those also took the beginning of a name for the name, and `--noflag` for false.

What a command picks up on its way from a web page is taken for what it was: `--flag` with a long dash, and
values in quotes that the shell does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from thinflow.cli._examples import laid_out
from thinflow.errors import closest

USAGE_EXIT = 2

_TRUE = frozenset({"true", "1", "yes", "on", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "f"})
_HELP = frozenset({"help", "h", "helpfull", "helpshort"})
_DASHES = "-\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
# What the logging library took in every tool, whatever the flags of its own; True: a switch.
_LOGGING = {
    **dict.fromkeys(("logtostderr", "alsologtostderr", "showprefixforinfo"), True),
    **dict.fromkeys(("v", "verbosity", "stderrthreshold", "vmodule", "log_dir", "minloglevel"), False),
}
_QUOTES = {"'": "'", '"': '"', "\N{LEFT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}"}
_QUOTES["\N{LEFT DOUBLE QUOTATION MARK}"] = "\N{RIGHT DOUBLE QUOTATION MARK}"

Setting = str | bool | int


class OldFlags:
    """Flags by name with their defaults; the type of the default is the type of the flag.

    Args:
        tool: for the usage text.
        flags: name -> (default, help).
        aliases: other spelling -> name.
        python: whether the tool was a script in Python, which took the beginning of a name for the name.
        examples: lines to show at the end of the usage text.
        arguments: (name, help) of each word without a flag, for tools that read those by themselves.
    """

    def __init__(
        self,
        tool: str,
        flags: Mapping[str, tuple[Setting, str]],
        aliases: Mapping[str, str] | None = None,
        *,
        python: bool = False,
        examples: str = "",
        arguments: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.tool = tool
        self.flags = flags
        self.aliases = aliases or {}
        self.python = python
        self.examples = examples
        self.arguments = arguments

    def parse(self, argv: Sequence[str]) -> dict[str, Setting] | None:
        """Values by flag; None after printing usage (for --help or a mistake, which it names)."""
        # A flag given twice keeps the later value, as in the originals.
        values: dict[str, Setting] = {name: default for name, (default, _) in self.flags.items()}
        waiting = list(reversed(argv))
        while waiting:
            argument = waiting.pop()
            spelt, equals, value = argument.lstrip(_DASHES).partition("=")
            # A tool's own flag of that name goes first.
            if argument.startswith("-") and spelt in _LOGGING and not {spelt} & {*self.flags, *self.aliases}:
                _skip_logging(spelt, equals, waiting)
                continue
            name = self._name(spelt)
            if name is None and not equals and (switch := self._switched_off(spelt)):
                name, equals, value = switch, "=", "false"
            if not argument.startswith(tuple(_DASHES)) or name is None:
                self._tell_unknown(argument, spelt)
                return None
            default = self.flags[name][0]
            if not equals and isinstance(default, bool):
                # What follows a switch is its value only if it is a word for yes or
                # no; else it is the next argument.
                has_word = bool(waiting) and waiting[-1].lower() in _TRUE | _FALSE
                value = waiting.pop() if has_word else "true"
            elif not equals:
                if not waiting:
                    print(f"the flag --{spelt} needs a value", file=sys.stderr)
                    return None
                value = waiting.pop()
            read = _read(unquoted(value), default)
            if read is None:
                print(f"Couldn't interpret value {value} for flag {spelt}.", file=sys.stderr)
                return None
            values[name] = read
        return values

    def _name(self, spelt: str) -> str | None:
        """The flag of a spelling; None if there is none, or more than one that begins so."""
        name = self.aliases.get(spelt, spelt)
        if name in self.flags:
            return name
        begun = self._begun(spelt) if self.python else set()
        return begun.pop() if len(begun) == 1 else None

    def _begun(self, spelt: str) -> set[str]:
        """The flags with a spelling that begins so."""
        if not spelt or spelt in _HELP:
            return set()
        # By the flag they stand for: two spellings of one flag are no doubt about which is meant.
        return {self.aliases.get(n, n) for n in (*self.flags, *self.aliases) if n.startswith(spelt)}

    def _switched_off(self, spelt: str) -> str | None:
        """The switch that `noNAME` turns off."""
        name = spelt.removeprefix("no")
        is_switch = name != spelt and isinstance(self.flags.get(name, ("",))[0], bool)
        return name if self.python and is_switch else None

    def _tell_unknown(self, argument: str, name: str) -> None:
        if argument.startswith("-") and name in _HELP:
            print(self.usage())
            return
        print(f"Unknown argument {argument}.", file=sys.stderr)
        if near := self._hint(argument, name):
            print(f"hint: {near}", file=sys.stderr)
        print(self.usage(), file=sys.stderr)

    def _hint(self, argument: str, name: str) -> str:
        """What may have been meant by an argument that is no flag."""
        if not argument.startswith(tuple(_DASHES)):
            first = f"--{argument}" if self._name(name) else f"--{next(iter(self.flags))}={argument}"
            return f"a value stands behind its flag, with no blank around '=': {first}"
        near = closest(name, [*self.flags, *self.aliases])
        begun = sorted(self._begun(name)) if self.python else []
        return f"it is the beginning of {' and '.join(map(repr, begun))}" if begun else near

    def usage(self) -> str:
        """The usage text: flags with type, default and meaning."""
        lines = [f"usage: thinflow {self.tool}", "Flags:"]
        for name, (default, text) in self.flags.items():
            kind = {bool: "bool", int: "int32", str: "string"}[type(default)]
            shown = f'"{default}"' if isinstance(default, str) else str(default).lower()
            lines.append(f"\t--{name}={shown}\t{kind}\t{text}")
        if self.examples:
            indented = "\n".join(f"  {line.strip()}" for line in self.examples.strip().splitlines())
            lines += ["examples:", laid_out(indented)]
        return "\n".join(lines)


def is_help(argv: Sequence[str]) -> bool:
    """Whether usage was asked for, so that printing it is no failure."""
    return any(a.startswith("-") and a.lstrip("-") in _HELP for a in argv)


def as_switch(text: str) -> bool | None:
    """Whether a word means yes, in any spelling of the originals; None if it is none."""
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def unquoted(text: str) -> str:
    """A text without the quotes around all of it, which not every shell takes off and no web page keeps."""
    closing = _QUOTES.get(text[:1])
    inner = text[1:-1]
    if closing is None or len(text) < 2 or not text.endswith(closing):
        return text
    # Quotes inside as well: the outer ones need not be a pair.
    return text if text[0] in inner or closing in inner else inner


def _skip_logging(name: str, equals: str, waiting: list[str]) -> None:
    """Take the value of a logging flag off what is waiting, if it has one of its own."""
    if equals or not waiting or waiting[-1].startswith("-"):
        return
    if not _LOGGING[name] or waiting[-1].lower() in _TRUE | _FALSE:
        waiting.pop()


def _read(text: str, default: Setting) -> Setting | None:
    """The value in the type of the default; None if the text is none."""
    if isinstance(default, bool):
        return as_switch(text)
    if isinstance(default, int):
        digits = text.removeprefix("-")
        # 19 digits are an int64; longer ones are a mistake, and int() is slow on hostile lengths.
        return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None
    return text
