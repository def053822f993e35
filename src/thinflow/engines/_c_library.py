"""Networks in C, compiled by this machine's compiler and run in this process."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.errors import EngineUnavailable, FeedError

if TYPE_CHECKING:
    from thinflow.lower.c.convert import Network
    from thinflow.tflite.model import Tensor
    from thinflow.typing import Array

COMPILERS = ("cc", "gcc", "clang")
# No product and sum may become one by the compiler's will: that rounds once where LiteRT rounds twice.
FLAGS = ("-std=c99", "-O3", "-fPIC", "-shared", "-ffp-contract=off")
_MOST_TOLD = 400
"""Characters of what a compiler says."""


def compiler() -> str | None:
    """The command of a C compiler: what CC says, else the first that is there; None if there is none."""
    # CC may have flags behind the command; these libraries have their own.
    asked = os.environ.get("CC", "").split()
    return next((c for c in (*asked[:1], *COMPILERS) if shutil.which(c)), None)


def cache_folder() -> Path:
    """Where compiled networks are kept for the next time."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "thinflow" / "c"


def compiled(files: Mapping[str, str], flags: Sequence[str] = FLAGS) -> Path:
    """The shared library made of C files; the same files are compiled once.

    Args:
        files: name -> text, headers among them.
        flags: of the compiler.

    Raises:
        EngineUnavailable: there is no compiler, or it refuses them.
    """
    command = compiler()
    if command is None:
        raise EngineUnavailable(
            "there is no C compiler here",
            hint="install gcc or clang, or say which in the environment: CC=...",
        )
    # Another compiler or other flags make another library of the same files.
    content = hashlib.sha256(repr((command, flags, sorted(files.items()))).encode()).hexdigest()
    library = cache_folder() / f"{content[:32]}{'.dylib' if sys.platform == 'darwin' else '.so'}"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, "utf-8")
        sources = [name for name in files if name.endswith(".c")]
        run = [command, *flags, "-o", "network.so", *(f"./{name}" for name in sources), "-lm"]
        # What a compiler that is killed leaves behind goes with the folder.
        where = os.environ | {"TMPDIR": folder}
        done = subprocess.run(run, cwd=folder, env=where, capture_output=True, text=True, errors="replace")
        if done.returncode:
            told = done.stderr.strip()[:_MOST_TOLD] or f"exit code {done.returncode}"
            raise EngineUnavailable(
                f"{command} refuses the C: {told}", hint="please report this with the model"
            )
        library.parent.mkdir(parents=True, exist_ok=True)
        # Aside and renamed: two processes may compile the same at once.
        aside = library.with_suffix(f".{os.getpid()}.part")
        shutil.copyfile(Path(folder) / "network.so", aside)
        os.replace(aside, library)
    return library


class Library:
    """A network compiled and loaded.

    Args:
        network: what it computes.
        files: its C.
        name: the name that its functions begin with.
        flags: of the compiler; those that the network's processor needs are added.
    """

    def __init__(
        self, network: Network, files: Mapping[str, str], name: str, flags: Sequence[str] = FLAGS
    ) -> None:
        from thinflow.lower.c.processors import PROCESSORS

        self.network = network
        flags = (*flags, *PROCESSORS[network.options.cpu].flags)
        self._library = ctypes.CDLL(str(compiled(files, flags)))
        self._run = self._library[f"{name}_run_in"]
        self._run.restype = None
        # Numbers of 64 bits, for the alignment.
        self._arena = np.zeros(max(network.plan.arena_bytes, 8) // 8 + 1, np.int64)
        # Generously: no element has more than eight bytes, and alignment less than eight a member.
        states = [state for layer in network.layers for state in layer.states()]
        self._state = np.zeros(sum(state.count + 1 for state in states), np.int64)
        self.keeps_state = bool(states)
        self._reset = self._library[f"{name}_reset"] if states else None
        self.restart()

    @cached_property
    def _outputs(self) -> list[Tensor]:
        block = self.network.block
        return [t for t in dict.fromkeys(block.outputs) if t not in block.inputs]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, in the network's order.

        Raises:
            FeedError: an input has other sizes than the network was made for.
        """
        block = self.network.block
        for tensor, given in zip(block.inputs, inputs, strict=True):
            # C would read beyond the end of what is too small.
            if given.shape != tensor.shape or given.dtype != tensor.dtype.numpy():
                raise FeedError(
                    f"the C takes '{tensor.name}' as {tensor.dtype}{list(tensor.shape or ())},"
                    f" not {given.dtype}{list(given.shape)}",
                    hint="a batch is 1; other sizes are given when it is made",
                )
        fed = dict(zip(block.inputs, map(np.ascontiguousarray, inputs), strict=True))
        made = {t: np.empty([n or 0 for n in t.shape or ()], t.dtype.numpy()) for t in self._outputs}
        self._run(*self._pointers([*fed.values(), *made.values()]))
        return [fed[t].copy() if t in fed else self._in_use(t, made) for t in self.network.outputs]

    def _in_use(self, tensor: Tensor, made: Mapping[Tensor, Array]) -> Array:
        """An output, without the memory behind rows that are counted."""
        count = self.network.counts.get(tensor)
        return made[tensor] if count is None else made[tensor][: int(made[count])]

    def prepared(self, inputs: Sequence[Array]) -> Callable[[], None]:
        """A run of these inputs that does nothing else, to be timed."""
        made = [np.empty([n or 0 for n in t.shape or ()], t.dtype.numpy()) for t in self._outputs]
        kept = [*map(np.ascontiguousarray, inputs), *made]
        pointers = self._pointers(kept)

        def once(_kept: Sequence[Array] = kept) -> None:
            # Pointers keep nothing alive: the arrays do, and this object its arena.
            self._run(*pointers)

        return once

    def _pointers(self, arrays: Sequence[Any]) -> list[ctypes.c_void_p]:
        own = [self._arena, *([self._state] if self.keeps_state else [])]
        return [ctypes.c_void_p(a.ctypes.data) for a in (*own, *arrays)]

    def restart(self) -> None:
        """Forget what runs left in states."""
        if self._reset is not None:
            self._reset(ctypes.c_void_p(self._state.ctypes.data))

    def computed(self, tensor: Tensor) -> Array | None:
        """What the last run left of a value in the arena; None if it lies elsewhere.

        Only a network of which everything is kept has them all.
        """
        buffer = self.network.plan.buffers[tensor]
        if buffer.owner is not None:
            return None
        raw = self._arena.view(np.uint8)[buffer.offset : buffer.offset + (tensor.size_bytes or 0)]
        left: Array = raw.view(tensor.dtype.numpy()).reshape([n or 0 for n in tensor.shape or ()]).copy()
        return left
