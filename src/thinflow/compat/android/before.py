"""The calls of Android's inference interface before TensorFlow 1.1, with codes instead of exceptions."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from thinflow.errors import ThinflowError

logger = logging.getLogger(__name__)

OK, FAILED_TO_LOAD, FAILED = 0, 1, -1


class CallsBefore:
    """The older names of `InferenceInterface`.

        inference = InferenceInterface()
        status = inference.initializeTensorFlow("app/assets", "file:///android_asset/model.pb")
        inference.fillNodeFloat("input", (1, 224, 224, 3), pixels)
        status = inference.runInference(["softmax"])
        status = inference.readNodeFloat("softmax", scores)

    0 is success. Errors are logged, and told by the status alone.
    """

    _logs_stats = False

    @abstractmethod
    def _load(self, model: Any, assets: Any) -> None: ...

    @abstractmethod
    def feed(self, name: str, values: Any, *dims: int | Sequence[int]) -> None: ...

    @abstractmethod
    def run(self, output_names: Sequence[str], enable_stats: bool = False) -> None: ...

    @abstractmethod
    def fetch(self, name: str, out: Any = None) -> Any: ...

    def initializeTensorFlow(self, assets: str | os.PathLike[str] | None, model: Any) -> int:
        """Open a model, also after `close`; 0, or 1 if it cannot be opened."""
        try:
            self._load(model, assets)
        except ThinflowError as error:
            logger.error("failed to load %s: %s", model, error.message)
            return FAILED_TO_LOAD
        return OK

    def enableStatLogging(self, enabled: bool) -> None:
        """Let runs from now on measure every node, or no longer; see `getStatString`."""
        self._logs_stats = enabled

    def runInference(self, output_names: Sequence[str]) -> int:
        """Compute outputs; 0, or -1 if that fails."""
        try:
            self.run(output_names, self._logs_stats)
        except ThinflowError as error:
            logger.error("failed to run: %s", error.message)
            return FAILED
        return OK

    def _fill(self, name: str, dims: Sequence[int], values: Any, kind: str) -> int:
        import numpy as np

        try:
            # A buffer holds the numbers themselves, as Java's direct buffers do.
            raw = isinstance(values, bytes | bytearray | memoryview)
            array = np.frombuffer(values, kind) if raw else np.asarray(values, kind)
            self.feed(name, array, *dims)
        # numpy refuses what does not fit a type by errors of its own; these calls tell all by their code.
        except (ThinflowError, TypeError, ValueError) as error:
            logger.error("failed to fill '%s': %s", name, error)
            return FAILED
        return OK

    def _read(self, name: str, out: Any) -> int:
        try:
            self.fetch(name, out)
        except ThinflowError as error:
            logger.error("failed to read '%s': %s", name, error.message)
            return FAILED
        return OK

    def fillNodeFloat(self, name: str, dims: Sequence[int], values: Any) -> int:
        """Give an input float32 values of that shape; 0, or -1."""
        return self._fill(name, dims, values, "float32")

    def fillNodeInt(self, name: str, dims: Sequence[int], values: Any) -> int:
        """Give an input int32 values of that shape; 0, or -1."""
        return self._fill(name, dims, values, "int32")

    def fillNodeDouble(self, name: str, dims: Sequence[int], values: Any) -> int:
        """Give an input float64 values of that shape; 0, or -1."""
        return self._fill(name, dims, values, "float64")

    def fillNodeByte(self, name: str, dims: Sequence[int], values: Any) -> int:
        """Give an input uint8 values of that shape; 0, or -1."""
        return self._fill(name, dims, values, "uint8")

    def readNodeFloat(self, name: str, out: Any) -> int:
        """Copy an output to a float32 array; 0, or -1."""
        return self._read(name, out)

    def readNodeInt(self, name: str, out: Any) -> int:
        """Copy an output to an int32 array; 0, or -1."""
        return self._read(name, out)

    def readNodeDouble(self, name: str, out: Any) -> int:
        """Copy an output to a float64 array; 0, or -1."""
        return self._read(name, out)

    def readNodeByte(self, name: str, out: Any) -> int:
        """Copy the bytes of an output; 0, or -1."""
        return self._read(name, out)
