"""The interface that Android applications use to run a model; see `thinflow.compat.android.interface`."""

from thinflow.compat.android.interface import InferenceInterface

__all__ = ["InferenceInterface"]
