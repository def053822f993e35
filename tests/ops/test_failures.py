"""What Python says of a wrong node, in words for its user."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.errors import NodeError
from thinflow.interpreter import Plan
from thinflow.ops._failures import in_words


def raised(action: str) -> Exception:
    """What running a line of Python raises."""
    try:
        exec(action, {"np": np})
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("()[0]", "an input has too few dimensions"),
        ("a, b = (1,)", "an input does not have 2 dimensions"),
        ("a, b = (1, 2, 3)", "an input does not have 2 dimensions"),
        ("(lambda a, *, b: 0)(1)", "it lacks the attribute 'b'"),
        ("(lambda a, b: 0)(1)", "it lacks the input 'b'"),
        ("(lambda a: 0)(1, 2)", "it has 2 inputs, and its op takes 1"),
        ("{}['x']", "its inputs or attributes are not as its op demands"),
        ("None.shape", "its inputs or attributes are not as its op demands"),
        ("assert False", "its inputs or attributes are not as its op demands"),
        ("np.zeros(2) + np.zeros(3)", "operands could not be broadcast together with shapes (2,) (3,) "),
    ],
)
def test_words(action: str, words: str) -> None:
    assert in_words(raised(action)) == words


def test_a_run_tells_them_with_the_inputs() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float}\ny = SpaceToDepth(x) {T=float, block_size=2}\n"
        "inputs: x\noutputs: y\n"
    )
    said = r"node 'y' \(SpaceToDepth\): an input does not have 4 dimensions \(inputs: float32\[2\]\)"
    with pytest.raises(NodeError, match=said):
        Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: np.zeros(2, np.float32)})


def test_the_cause_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A mistake in a rule looks like a malformed node; whoever writes the rule needs its traceback."""
    with caplog.at_level("DEBUG", logger="thinflow"):
        in_words(raised("{}['x']"))
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)
