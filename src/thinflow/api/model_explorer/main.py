"""The extension that Model Explorer loads: opens files by thinflow."""

from __future__ import annotations

from typing import Any

from model_explorer import Adapter, AdapterMetadata
from model_explorer.graph_builder import GraphCollection

# Not json: Model Explorer gives a file to the first that takes its ending, and its own graphs end so.
_SUFFIXES = ("pb", "pbtxt", "meta", "index", "tflite", "onnx", "keras", "h5", "hdf5", "pt2", "mmpb")


class ThinflowAdapter(Adapter):  # type: ignore[misc]  # what is not installed has no types
    """Opens GraphDefs, SavedModels, checkpoints and others without TensorFlow."""

    metadata = AdapterMetadata(
        id="thinflow",
        name="thinflow",
        description="TensorFlow, Keras, LiteRT, ONNX and PyTorch models, without their frameworks",
        fileExts=list(_SUFFIXES),
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, Any]:
        """The graphs of a file.

        Args:
            model_path: of the file; of a SavedModel its saved_model.pb.
            settings: of the page; none of them bears on graphs.
        """
        from thinflow.api.exploring.job import Job
        from thinflow.api.model_explorer.graphs import collection

        del settings
        found = collection(Job().make(model_path, None, ()))
        return {"graphCollections": [GraphCollection(label=found["label"], graphs=found["graphs"])]}
