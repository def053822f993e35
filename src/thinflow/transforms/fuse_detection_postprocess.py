"""Replace the postprocessing of an object detector by one op, TFLite_Detection_PostProcess.

detection_boxes = decode, suppress, gather, ...(boxes, scores, anchors)
  ->  detection_boxes = TFLite_Detection_PostProcess(boxes, scores, anchors)
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from thinflow.errors import GraphError, closest
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT
from thinflow.rewrite.rule import Trace, Transform, transform

OP = "TFLite_Detection_PostProcess"
_PLACES = ("boxes", "scores", "anchors", "first_class")
_USUAL = ("raw_outputs/box_encodings", "raw_outputs/class_predictions", "anchors")
_RESULTS = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")


@transform("fuse_detection_postprocess")
@dataclass(frozen=True)
class FuseDetectionPostprocess(Transform):
    """Replace what a detector of the Object Detection API does behind its network by the one op phones have.

    The nodes detection_boxes, detection_classes, detection_scores and num_detections then read that op; those
    that the graph lacks are added, and all four become its outputs. What nobody needs any more goes with
    `strip_unused_nodes`. Phones look at one image at a time and decode in their own way, so numbers may
    differ where boxes overlap by nearly the threshold.

    Attributes:
        boxes: the encoded boxes [1,anchors,4] that the network gives.
        scores: the scores [1,anchors,classes or classes + 1], after the sigmoid or softmax.
        anchors: the anchors [anchors,4] as centre and size: y, x, h, w.
        num_classes: without the background.
        max_detections: how many boxes to give.
        max_classes_per_detection: classes for each box, with the fast suppression.
        use_regular_nms: suppress each class by itself.
        detections_per_class: how many boxes a class keeps, with the regular suppression.
        nms_score_threshold: scores below are dropped.
        nms_iou_threshold: boxes that overlap more are dropped.
        y_scale: what the encoded y is divided by.
        x_scale: what the encoded x is divided by.
        h_scale: what the encoded height is divided by.
        w_scale: what the encoded width is divided by.
        first_class: what is added to the classes: 1 where the labels count the background.
    """

    exact = False
    renames = True

    boxes: str = _USUAL[0]
    scores: str = _USUAL[1]
    anchors: str = _USUAL[2]
    num_classes: int = 90
    max_detections: int = 100
    max_classes_per_detection: int = 1
    use_regular_nms: bool = False
    detections_per_class: int = 100
    nms_score_threshold: float = 1e-8
    nms_iou_threshold: float = 0.6
    # The usual factors of the Object Detection API's box coder.
    y_scale: float = 10.0
    x_scale: float = 10.0
    h_scale: float = 5.0
    w_scale: float = 5.0
    first_class: int = 1

    def for_function(self) -> None:
        return None  # a detector is the whole graph

    def apply(self, graph: Graph, trace: Trace) -> None:
        if self._is_unnamed(graph):
            trace.notes.append("there is no detector whose boxes, scores and anchors have the usual names")
            return
        inputs = [self._value(graph, name) for name in (self.boxes, self.scores, self.anchors)]
        if any(node.op == OP for node in graph):
            trace.notes.append(f"there is a {OP} already")
            return
        new = graph.add(OP, inputs, OP, attrs=self._attrs())
        new.origin = self.name
        results = [new.output(port) for port in range(len(_RESULTS))]
        # The op counts classes from 0, without the background.
        if self.first_class:
            first = graph.constant(np.array(self.first_class, np.float32), f"{OP}/first_class")
            results[1] = graph.add("AddV2", [results[1], first], f"{OP}/classes", attrs={"T": FLOAT}).output()
        ends = [self._end(graph, name, value) for name, value in zip(_RESULTS, results, strict=True)]
        # In this order, which apps read by number.
        graph.outputs = [end.output() for end in ends]
        trace.changed(new, f"gives {', '.join(_RESULTS)}")

    def _is_unnamed(self, graph: Graph) -> bool:
        """True if nothing was named, and the graph has none of the usual names."""
        names = self.boxes, self.scores, self.anchors
        return names == _USUAL and not any(n.partition(":")[0] in graph for n in names)

    def _attrs(self) -> dict[str, Attr]:
        # The op's options have the names of the fields.
        names = [f.name for f in fields(self) if f.name not in _PLACES]
        return {name: getattr(self, name) for name in names}

    def _end(self, graph: Graph, name: str, value: Value) -> Node:
        """The node of a result, which reads the op now; another op of that name makes room."""
        if name in graph and graph.node(name).op == "Identity":
            node = graph.node(name)
            node.set_inputs([value])
            return node
        if name in graph:
            graph.rename(graph.node(name), graph.unique_name(f"{name}/before"))
        return graph.add("Identity", [value], name, attrs={"T": FLOAT})

    def _value(self, graph: Graph, name: str) -> Value:
        node = name.partition(":")[0]
        if node not in graph:
            raise GraphError(
                f"there is no node named '{node}'",
                hint=closest(node, (n.name for n in graph)) or "see `inspect`",
            )
        return graph.value(name)
