"""Store an embedding of one column, most of it zero, as a table of what is not.

gather(w, ids)  ->  expand_dims(find(table, ids, 0), -1)      w [n,1]; the table holds its rows that are not 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node, Value, graph_of
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, const, constant_node, node, optional
from thinflow.rewrite.rule import Refuse, Trace, transform
from thinflow.transforms.shared.constants import awaited_by_constant

_SPARSE_BYTES, _DENSE_BYTES = 12, 4  # per row: an int64 key with its float, and the float


@transform("sparsify_gather")
@dataclass(frozen=True)
class SparsifyGather(Rewrite):
    """Turn lookups in a constant of one column into lookups in a hash table of its rows that are not zero.

    The table has to be filled before the first run: run `group_init_node` once. A row that does not exist
    gives 0 instead of an error.

    Attributes:
        input_checkpoint: accepted and not read; weights have to be constants.
        group_init_node: the node that fills all tables.
        force: also where that takes more space than the dense rows.
        threshold: rows closer to 0 than this count as 0.
    """

    pattern: ClassVar = node(
        Trait.GATHER,
        const("w"),
        any_value("ids"),
        optional(const("axis")),
        name="gather",
    )

    input_checkpoint: str = ""
    group_init_node: str = "group_deps"
    force: bool = False
    threshold: float = 1e-5

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < np.inf:
            raise ParameterError(f"threshold is {self.threshold:g}", hint="give a small positive number")
        if self.threshold > 0:
            object.__setattr__(self, "exact", False)  # small rows become 0

    def for_function(self) -> None:
        return None  # tables are made in the graph itself

    def apply(self, graph: Graph, trace: Trace) -> None:
        if self.input_checkpoint:
            trace.warnings.append("checkpoints are not read; lookups in variables stay")
        super().apply(graph, trace)
        if trace.changes:
            trace.notes.append(f"run '{self.group_init_node}' once before anything else: it fills the tables")

    def check(self, m: Match) -> None:
        table = constant_node(m.w)
        assert table is not None
        assert table.tensor is not None
        rows = table.tensor.shape
        if len(rows) != 2 or rows[1] != 1 or not rows[0]:
            raise Refuse(f"'{table.name}' has shape {list(rows)}, not [n,1]", m.gather)
        if table.tensor.dtype is not FLOAT:
            raise Refuse(f"'{table.name}' is {table.tensor.dtype}, not float", m.gather)
        if m.get("axis") is not None and (m.array("axis").size != 1 or m.array("axis").any()):
            raise Refuse(f"it gathers along axis {m.array('axis').tolist()}, not 0", m.gather)
        if m.gather.get("batch_dims", 0):
            raise Refuse(f"it has batch_dims {m.gather.get('batch_dims')}, not 0", m.gather)
        ids = m.gather.attrs.get("Tindices")
        if ids not in {INT32, INT64}:
            raise Refuse(f"its ids are {ids or 'of unknown type'}, not int32 or int64", m.gather)
        if awaited_by_constant(m.w):
            raise Refuse(f"'{table.name}' waits for other nodes", m.gather)
        graph = graph_of(table)
        assert graph is not None
        group = graph.find(self.group_init_node)
        if group is not None and group.op != "NoOp":
            raise Refuse(f"'{group.name}' is {group.op}, not a NoOp to fill tables with", m.gather)
        if not self.force:
            self._check_size(m, table)

    def _check_size(self, m: Match, table: Node) -> None:
        # The dense rows would stay for other readers, and nothing would be saved.
        others = [r for r in _readers(table) if not has(r.op, Trait.GATHER)]
        if others or table.is_protected:
            by = f"used by '{others[0].name}'" if others else "asked for by name"
            raise Refuse(f"'{table.name}' is also {by} and would stay; force=true does it anyway", m.gather)
        nonzero, count = _nonzero_rows(m.array("w"), self.threshold).size, m.array("w").size
        if nonzero * _SPARSE_BYTES >= count * _DENSE_BYTES:
            raise Refuse(
                f"{nonzero} of {count} rows are not zero, too many to save space; force=true does it anyway",
                m.gather,
            )

    def build(self, m: Match, site: Site) -> Value:
        gather = m.gather
        ids = m.ids
        if gather.attrs["Tindices"] is INT32:
            cast = {"SrcT": INT32, "DstT": INT64}
            ids = site.add("Cast", ids, name=f"{gather.name}/ids_int64", attrs=cast)
        # What the table gives for rows that it does not hold.
        zero = site.constant(np.float32(0), f"{gather.name}/Const")
        row = site.add(
            "LookupTableFind",
            self._table(m, site),
            ids,
            zero,
            name=f"{gather.name}/LookupTableFind",
            attrs={"Tin": INT64, "Tout": FLOAT},
        )
        # A table gives a number for each id, a gather a row, here of one column.
        last = site.constant(np.int32(-1), f"{gather.name}/ExpandDims/Const")
        return site.add("ExpandDims", row, last, attrs={"T": FLOAT, "Tdim": INT32})

    def _table(self, m: Match, site: Site) -> Value:
        """The table of a constant, made at its first lookup."""
        source = constant_node(m.w)
        assert source is not None
        # Several gathers may read the same constant.
        earlier = site.graph.find(f"{source.name}/HashTable")
        if earlier is not None and earlier.origin == self.name:
            return earlier.output()
        rows = m.array("w").reshape(-1)
        nonzero = _nonzero_rows(rows, self.threshold)
        # A table without rows cannot be filled: row 0 is stored as it is, or as 0.
        nonzero = nonzero if nonzero.size else np.zeros(1, np.int64)
        values = np.where(np.abs(rows[nonzero]) >= self.threshold, rows[nonzero], np.float32(0))
        types = {"key_dtype": INT64, "value_dtype": FLOAT}
        table = site.add("HashTable", name=f"{source.name}/HashTable", attrs=types)
        filler = site.add(
            "InitializeTable",
            table,
            site.constant(nonzero, f"{source.name}/indices"),
            site.constant(values, f"{source.name}/values"),
            name=f"{source.name}/InitializeTable",
            attrs={"Tkey": INT64, "Tval": FLOAT},
        )
        # One node fills all tables, of every lookup in the graph.
        group = site.graph.find(self.group_init_node) or site.add("NoOp", name=self.group_init_node).node
        group.add_control_input(filler.node)
        return table

    def describe(self, m: Match) -> str:
        rows = m.array("w").reshape(-1)
        nonzero = _nonzero_rows(rows, self.threshold)
        lost = np.count_nonzero(rows) - np.count_nonzero(rows[nonzero])
        small = f"; {lost} rows below {self.threshold:g} became 0" if lost else ""
        return f"looks up {nonzero.size} of {rows.size} rows in a table{small}"


def _nonzero_rows(rows: np.ndarray, threshold: float) -> np.ndarray:
    """The numbers of the rows that go into the table, int64."""
    flat = np.abs(rows.reshape(-1))
    # NaN compares as false and is not 0: it is kept.
    return np.flatnonzero((flat >= threshold) & (flat > 0) | np.isnan(flat)).astype(np.int64)


def _readers(table: Node) -> list[Node]:
    """The nodes that read a constant, through pass-through ops."""
    readers: list[Node] = []
    stack = list(table.readers)
    while stack:
        reader = stack.pop()
        if has(reader.op, Trait.IDENTITY):
            stack.extend(reader.readers)
        else:
            readers.append(reader)
    return readers
