"""Options of freezing, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.load.keeping import Kept
from thinflow.load.restoring import Key


@brief_repr
@dataclass(frozen=True)
class Options:
    """Options of freezing.

    Attributes:
        only: names of the variables to freeze, with wildcards; empty: all.
        exclude: names of those not to freeze, with wildcards.
        averages: take the moving average of a variable where one was saved.
        renames: beginning of a variable's name in the graph -> in the checkpoint.
        allow_missing: leave variables without a value in the graph, and tables without their file.
        allow_absent_files: leave tables without their file: whoever runs them is told.
        clear_devices: drop the placement of nodes.
        inline: put the bodies of called functions in the place of the calls.
        initializers: names of nodes that prepare tables and variables that no checkpoint holds, besides
            those the model names.
        restore_op: the node that restores everything, of several savers the one to believe; "": the model's.
        state: what becomes of variables that runs change, one of `keeping.CHOICES`.
    """

    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    averages: bool = False
    renames: Mapping[str, str] = field(default_factory=dict)
    allow_missing: bool = False
    allow_absent_files: bool = False
    clear_devices: bool = False
    inline: bool = True
    initializers: Sequence[str] = ()
    restore_op: str = ""
    state: str = "freeze"


@brief_repr
@dataclass
class Frozen:
    """A frozen graph and how it came to be.

    Attributes:
        graph: runnable; its inputs and outputs are declared.
        variables: node -> the key its value was read from, and what told so.
        missing: variables that have no value and are still in the graph.
        unused: keys of the checkpoint that no variable of the graph needed.
        nodes_before: how many nodes the model's main graph had.
        notes: facts worth telling.
        state: variables that a run read and changed, so that the next one began with what it left.
        kept: those of them that are states of the graph.
    """

    graph: Graph
    variables: dict[str, Key] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    nodes_before: int = 0
    notes: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept, repr=False)
