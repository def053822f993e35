"""`thinflow transforms`: which transforms there are, and what one of them does."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._options import add_json, add_plugin, load_plugins

EXAMPLES = """
  thinflow transforms
  thinflow transforms fold_batch_norms
  thinflow transforms --plugin my.py --json
"""
WIDTH = 100
"""Where lines break."""


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("name", nargs="?", metavar="TRANSFORM", help="explain this one (default: list all)")
    add_plugin(p)
    add_json(p)


def run(args: Namespace) -> int:
    import dataclasses
    import json

    from thinflow.api import describe_transform, describe_transforms, named_orders

    load_plugins(args)
    orders = named_orders()
    if args.name is None:
        found = describe_transforms()
        if args.json:
            print(
                json.dumps(
                    {"transforms": [dataclasses.asdict(d) for d in found], "several": orders}, indent=2
                )
            )
        else:
            print("\n".join(_list(found, orders)))
        return 0
    # Names for several transforms are no transforms, but are asked for like them.
    if args.name in orders:
        print(
            json.dumps({args.name: orders[args.name]}) if args.json else f"{args.name}: {orders[args.name]}"
        )
        return 0
    description = describe_transform(args.name)
    print(
        json.dumps(dataclasses.asdict(description), indent=2)
        if args.json
        else "\n".join(_explain(description, args.name))
    )
    return 0


def _list(found: list[Any], orders: dict[str, str]) -> list[str]:
    width = max(len(d.name) for d in found)
    lines = [f"{len(found)} transforms"]
    for d in found:
        lines.append(f"  {d.name:{width}}  {d.purpose}{' (plug-in)' if d.plugin else ''}")
        if d.parameters:
            lines += _wrapped(" ".join(map(_signature, d.parameters)), " " * (width + 6))
        if d.aliases:
            lines.append(" " * (width + 6) + f"also: {', '.join(d.aliases)}")
    lines += ["names for several:", *(f"  {name:{width}}  {text}" for name, text in orders.items())]
    return [*lines, "next: thinflow transforms NAME"]


def _signature(parameter: Any) -> str:
    value = parameter.type if parameter.default in {None, ""} else parameter.default
    return f"{parameter.name}={value}{'...' if parameter.repeated else ''}"


def _explain(d: Any, asked: str) -> list[str]:
    import textwrap

    lines = [f"{d.name}: {d.purpose}"]
    if d.details:
        lines += ["", *textwrap.indent(d.details, "  ").splitlines()]
    lines += ["", "parameters:" if d.parameters else "no parameters"]
    for p in d.parameters:
        default = "required" if p.default is None else f"default {p.default or 'none'}"
        lines.append(f"  {p.name}  {p.type}{', may be repeated' if p.repeated else ''}, {default}")
        lines += _wrapped(p.meaning, " " * 6)
    if d.aliases:
        lines += ["", f"also understood: {', '.join(d.aliases)}"]
    lines += [
        "",
        "numbers: changed on purpose"
        if not d.exact
        else f"numbers: equal up to {d.tolerance:g} of the largest value",
    ]
    if d.example:
        lines += [
            "",
            f"example: {d.example.transforms}",
            *textwrap.indent(d.example.before, "  ").splitlines(),
            "becomes",
        ]
        lines += textwrap.indent(d.example.after, "  ").splitlines()
    return [*lines, "", f"next: thinflow transform MODEL.pb OUT.pb -t {asked}"]


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
