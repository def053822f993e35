"""The interface that Android applications use to run a model; see `thinflow.inference.interface`."""

from thinflow.inference.interface import InferenceInterface

__all__ = ["InferenceInterface"]
