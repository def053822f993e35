"""Writes docs/cli.md, all commands and flags, from the parsers themselves.

python docs/_make_cli.py
"""

from __future__ import annotations

import re
from pathlib import Path

from thinflow.cli._reference import ArgumentData, CommandData, FlagData, command_line

PAGE = Path(__file__).with_name("cli.md")
REGION = re.compile(r"(<!-- generated: cli -->\n).*?(<!-- end -->)", re.DOTALL)


def reference() -> str:
    """Everything between the markers of the page."""
    told = command_line()
    commands = {command["name"]: command for command in told["commands"]}
    parts = [_general(told["flags"]), _codes(told["exit_codes"])]
    for title, names in told["groups"].items():
        parts.append(f"## {title[0].upper()}{title[1:]}")
        parts += [_overview([commands[name] for name in names])]
        parts += [_section(commands[name], "###") for name in names]
    return "\n\n".join(parts) + "\n"


def _general(flags: list[FlagData]) -> str:
    return "\n".join(["| without a command | |", "|---|---|", *map(_flag_row, flags)])


def _codes(codes: dict[str, str]) -> str:
    rows = [f"| {code} | {meaning} |" for code, meaning in codes.items()]
    return "\n".join(["| exit code | |", "|---|---|", *rows])


def _overview(commands: list[CommandData]) -> str:
    rows = [f"| [`{c['name']}`](#{c['name']}) | {_cell(c['summary'])} |" for c in commands]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def _section(command: CommandData, heading: str) -> str:
    summary = command["summary"].rstrip(".")
    parts = [f"{heading} {command['name']}", f"{summary[0].upper()}{summary[1:]}."]
    parts.append(f"```text\n{_usage(command)}\n```")
    if command["details"]:
        parts.append(f"```text\n{command['details']}\n```")
    flags = [flag for flag in command["flags"] if flag["spellings"][0] != "--help"]
    rows = [*map(_argument_row, command["arguments"]), *map(_flag_row, flags)]
    if rows:
        parts.append("\n".join(["| argument or flag | meaning |", "|---|---|", *rows]))
    if command["examples"]:
        lines = [
            f"{e['command']}  # {e['comment']}" if e["comment"] else e["command"] for e in command["examples"]
        ]
        parts.append("\n".join(["```sh", *lines, "```"]))
    parts += [_section(own, f"{heading}#") for own in command["commands"]]
    return "\n\n".join(parts)


def _usage(command: CommandData) -> str:
    """The words without the flags, which the table lists."""
    words = ["thinflow", command["name"]]
    if command["commands"]:
        words.append("|".join(own["name"].split()[-1] for own in command["commands"]))
    for argument in command["arguments"]:
        word = argument["name"] + (" ..." if argument["repeated"] else "")
        words.append(word if argument["required"] else f"[{word}]")
    words.append("[--flag=value ...]" if command["manners"] == "tensorflow" else "[OPTIONS]")
    return " ".join(words)


def _argument_row(argument: ArgumentData) -> str:
    return f"| `{argument['name']}` | {_cell(argument['help'])} |"


def _flag_row(flag: FlagData) -> str:
    value = f" {flag['metavar']}" if flag["takes"] != "nothing" else ""
    value = f" [{flag['metavar']}]" if flag["takes"] == "optional value" else value
    choices = f" {{{','.join(flag['choices'])}}}" if flag["choices"] else value
    spelt = "`, `".join([flag["spellings"][0] + choices, *flag["spellings"][1:]])
    told = [flag["help"]]
    told += ["required"] if flag["required"] else []
    told += ["may be repeated"] if flag["repeated"] and "repeat" not in flag["help"] else []
    told += [f"not with {', '.join(f'`{o}`' for o in flag['excludes'])}"] if flag["excludes"] else []
    told += [f"also `{'`, `'.join(flag['aliases'])}`"] if flag["aliases"] else []
    return f"| `{_cell(spelt)}` | {_cell('; '.join(filter(None, told)))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def renewed(text: str) -> str:
    """The page with its generated part made anew."""
    return REGION.sub(lambda found: f"{found[1]}\n{reference()}\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
