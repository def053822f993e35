"""`thinflow completion`: a script for a shell that completes commands, flags, names and files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

EXAMPLES = """
  thinflow completion bash > ~/.thinflow.bash         # and `source ~/.thinflow.bash` in ~/.bashrc
  thinflow completion zsh > ~/.zfunc/_thinflow       # with ~/.zfunc in fpath
  thinflow completion fish > ~/.config/fish/completions/thinflow.fish
"""
SHELLS = ("bash", "zsh", "fish")


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument("shell", choices=SHELLS, help="which shell")


def run(args: Namespace) -> int:
    print(import_module(f"thinflow.cli._complete_{args.shell}").script(), end="")
    return 0
