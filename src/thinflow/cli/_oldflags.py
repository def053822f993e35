"""The flag parser of TensorFlow's C++ tools: `--flag=value`, one dash or two; with the space form as an
extra.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

USAGE_EXIT = 2


class OldFlags:
    """Flags by name with their defaults; a bool default makes a bool flag.

    Args:
        tool: for the usage text.
        flags: name -> (default, help).
    """

    def __init__(self, tool: str, flags: Mapping[str, tuple[str | bool, str]]) -> None:
        self.tool = tool
        self.flags = flags

    def parse(self, argv: Sequence[str]) -> dict[str, str | bool] | None:
        """Values by flag; None after printing usage (for --help or a mistake, which it names)."""
        values: dict[str, str | bool] = {name: default for name, (default, _) in self.flags.items()}
        at = 0
        while at < len(argv):
            argument = argv[at]
            at += 1
            name, equals, value = argument.lstrip("-").partition("=")
            if not argument.startswith("-") or name not in self.flags:
                if name not in {"help", "h"}:
                    print(f"Unknown argument {argument}.", file=sys.stderr)
                print(self.usage(), file=sys.stderr)
                return None
            if isinstance(self.flags[name][0], bool):
                if value.lower() not in {"", "true", "false", "1", "0"}:
                    print(f"Couldn't interpret value {value} for flag {name}.", file=sys.stderr)
                    return None
                values[name] = value.lower() in {"", "true", "1"}
            elif equals:
                values[name] = value
            elif at < len(argv):
                values[name] = argv[at]
                at += 1
            else:
                print(f"the flag --{name} needs a value", file=sys.stderr)
                return None
        return values

    def usage(self) -> str:
        """The usage text: flags with type, default and meaning."""
        lines = [f"usage: thinflow {self.tool}", "Flags:"]
        for name, (default, text) in self.flags.items():
            kind = "bool" if isinstance(default, bool) else "string"
            shown = str(default).lower() if isinstance(default, bool) else f'"{default}"'
            lines.append(f"\t--{name}={shown}\t{kind}\t{text}")
        return "\n".join(lines)
