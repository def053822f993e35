"""Loops and branches."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.interpreter.turns import turns_of
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

_LOOPS = frozenset({"onnx.Loop", "onnx.Scan", "tfl.WHILE"})


@rule("TF309", Severity.INFO)
def graph_loops(c: Context) -> Iterator[LintFinding]:
    """Loops: frames of TF1 or While nodes, and how often they turn where that is fixed.

    Why: no accelerator of a phone runs loops, so that all in them stays on the processor, a step at a time;
    the simple runtimes of microcontrollers have none.

    Mend: a recurrent layer with a fixed number of steps can be exported unrolled (`unroll=True` in Keras,
    `static_rnn` in TF1), one that is fed step by step as one step with its state as input and output
    (`--state inputs`).

    Ignore: a loop whose number of turns is only known when it runs; a layer that the converter knows as one
    operator, which the finding tells.
    """
    if not c.has_own_nodes:
        return
    # A recurrent layer of another file is one operator there, and a loop in the translation.
    if c.file.vocabulary:
        names = tuple(n.name for n in c.file if n.op in _LOOPS and n.name in c.needed_names)
        if names:
            yield LintFinding(f"{count(len(names), 'loop')}, which accelerators do not run", names)
        return
    loops = [n.name for n in c.graph if n in c.needed and has(n.op, Trait.WHILE)]
    frames: dict[object, str] = {}
    for node in c.graph:
        if node in c.needed and has(node.op, Trait.ENTER):
            # A loop has one frame, and an Enter for each variable.
            frames.setdefault(node.get("frame_name"), node.name)
    if loops or frames:
        made = c.written["UNIDIRECTIONAL_SEQUENCE_LSTM"] if c.written and not c.written["WHILE"] else 0
        converted = f"; converted for LiteRT, {count(made, 'LSTM operator')} without a loop" if made else ""
        yield LintFinding(
            f"{count(len(loops) + len(frames), 'loop')}{_turns(c)}{converted}",
            (*loops, *frames.values()),
        )


def _turns(c: Context) -> str:
    """What is wrong with them, and how often they turn if that is known."""
    # As calls of functions, and with constants folded, which the lengths of sequences come from.
    known = [turns_of(c.for_litert, n) for n in c.for_litert if has(n.op, Trait.WHILE)]
    if not any(known):
        told = "; how often it turns only a run tells" if known else ""
        return f", which accelerators do not run{told}"
    turns = " and ".join("?" if number is None else str(number) for number in known)
    return f" of {turns} turn{'' if turns == '1' else 's'}, which accelerators do not run"
