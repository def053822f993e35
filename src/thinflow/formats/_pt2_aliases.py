"""Values that share memory in a PyTorch program, and what ops that write in place do to them.

In a graph of ours nothing is written in place: whoever reads a value after such an op reads the op's result.
That holds for the value itself, for slices of it and for what it is a slice of. What other names show of the
same memory is not followed, and reading them then is an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from thinflow.errors import UnsupportedOp

# ATen's views, and ops that hand on their operand as it is in some cases: `contiguous` of what is, `dropout`
# that is off.
_VIEWS = frozenset(
    [
        *("_reshape_alias", "_to_copy", "_unsafe_view", "alias", "alpha_dropout", "as_strided"),
        *("_conj", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "broadcast_to", "chunk"),
        *("conj", "imag", "view_as_complex"),
        *("contiguous", "detach", "detach_", "diagonal", "dropout", "dsplit", "expand"),
        *("expand_as", "feature_dropout", "flatten", "float", "hsplit", "identity", "index"),
        *("lift", "mT", "meshgrid", "moveaxis", "movedim", "narrow", "numpy_T", "permute"),
        *("pin_memory", "positive", "ravel", "real", "requires_grad_", "reshape", "reshape_as"),
        *("resolve_conj", "resolve_neg", "select", "slice", "split", "split_with_sizes", "squeeze"),
        *("squeeze_", "swapaxes", "swapdims", "t", "tensor_split", "to", "transpose", "type_as"),
        *("unbind", "unflatten", "unfold", "unsqueeze", "unsqueeze_", "view", "view_as"),
        *("view_as_real", "vsplit"),
    ]
)
_WRITES_NOTHING = frozenset({"detach_", "requires_grad_", "squeeze_", "unsqueeze_"})


class Aliases:
    """Which names of a program share memory, and which of them show it as it was.

    Attributes:
        owner: what those names stand for that are kept.
    """

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}
        self._stale: dict[str, str] = {}
        self._kept: set[str] = set()
        self._states: set[str] = set()
        self.owner = "a parameter, or a part of a buffer, of the model, which the next run would see"

    def keep(self, name: str, *, is_state: bool = False) -> None:
        """Note a parameter or buffer: what is written there is there in the next run.

        Args:
            is_state: whether that is followed, as long as it is written by its own name.
        """
        self._groups.setdefault(name, {name})
        self._kept.add(name)
        if is_state:
            self._states.add(name)

    def join(self, names: Iterable[str]) -> None:
        """Note names that may share memory: what graphs hand on of their operands is not followed."""
        joined: set[str] = set()
        for name in names:
            joined |= self._groups.get(name, {name})
        for name in joined:
            self._groups[name] = joined

    def is_stale(self, name: str) -> bool:
        """True if an op has changed a value behind another name."""
        return name in self._stale

    def renew(self, name: str) -> None:
        """Note that a value is what its memory holds again."""
        self._stale.pop(name, None)

    def check(self, name: str) -> None:
        """Refuse to read what an op has changed behind another name.

        Raises:
            UnsupportedOp: names that op.
        """
        if name in self._stale:
            raise UnsupportedOp(
                f"it reads '{name}', which {self._stale[name]} changes in place behind another name",
                hint="export it in core ATen: torch.export.save(program.run_decompositions(), path)",
            )

    def note(
        self, base: str, node: str, source: str | None, results: list[str], wholes: Iterable[str] = ()
    ) -> bool:
        """Follow one op; True if its operand's name stands for its first result from now on.

        Args:
            base: the op's name without its overload.
            node: what it is called in the program.
            source: its first operand.
            results: names of what it gives.
            wholes: of what the operand is a part, which the caller puts back.

        Raises:
            UnsupportedOp: it writes into a parameter, or into a part of a buffer.
        """
        if source is None or not (base in _VIEWS or is_in_place(base)):
            return False
        group = self._groups.setdefault(source, {source})
        for name in results:
            group.add(name)
            self._groups[name] = group
        if not is_in_place(base) or base in _WRITES_NOTHING:
            return False
        if group & self._kept and source not in self._states:
            raise UnsupportedOp(
                f"it changes {self.owner}",
                hint="export it in core ATen: torch.export.save(program.run_decompositions(), path)",
            )
        for name in group - {source, *results, *wholes}:
            self._stale[name] = f"'{node}'"
        return True


def is_in_place(base: str) -> bool:
    """True if an op writes into its first operand, by how PyTorch names such ops."""
    return base.endswith("_") and not base.startswith("__")


def writes_in_place(target: str) -> bool:
    """True if a node of a program writes its first operand anew."""
    base = target.removeprefix("torch.ops.aten.").partition(".")[0]
    return base != target and is_in_place(base) and base not in _WRITES_NOTHING
