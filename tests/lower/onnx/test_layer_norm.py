"""Layer norms become one operator, in whichever way a model says them; what only looks like one stays."""

from __future__ import annotations

import numpy as np
import pytest

import thinflow
from tests.lower.builders import floats
from tests.lower.onnx.harness import Net

X = floats(2, 5, 8)
SCALE, OFFSET = floats(8, low=0.5), floats(8)


def statistics(net, x, axes=(-1,), epsilon=1e-3, center=None):
    """The mean of x, and 1 / sqrt(variance + epsilon)."""
    axes = np.array(axes, np.int32)
    mean = net.op("Mean", x, axes, keep_dims=True, name="mean")
    squares = net.op("SquaredDifference", x if center is None else center, mean)
    variance = net.op("Mean", squares, axes, keep_dims=True, name="variance")
    return mean, net.op("Rsqrt", net.op("AddV2", variance, np.float32(epsilon), name="sum"))


def centred(net, x, scale=SCALE, offset=OFFSET, **how):
    mean, inverse = statistics(net, x, **how)
    y = net.op("Mul", net.op("Sub", x, mean), inverse)
    y = y if scale is None else net.op("Mul", y, scale, name="scaled")
    return y if offset is None else net.op("AddV2", y, offset, name="y")


def applied(net, x, scale=SCALE, offset=OFFSET, **how):
    """As `tf.nn.batch_normalization` says it."""
    mean, inverse = statistics(net, x, **how)
    factor = inverse if scale is None else net.op("Mul", inverse, scale, name="factor")
    shift = net.op("Mul", mean, factor, name="shift")
    product = net.op("Mul", x, factor, name="product")
    return (
        net.op("AddV2", product, net.op("Sub", offset, shift))
        if offset is not None
        else net.op("Sub", product, shift)
    )


def negated(net, x, scale=SCALE, offset=OFFSET, **how):
    """As Keras 3 says it."""
    mean, inverse = statistics(net, x, **how)
    factor = inverse if scale is None else net.op("Mul", inverse, scale, name="factor")
    shift = net.op("Mul", net.op("Neg", mean), factor, name="shift")
    shift = shift if offset is None else net.op("AddV2", shift, offset, name="offset")
    return net.op("AddV2", net.op("Mul", x, factor, name="product"), shift)


def divided(net, x, scale=SCALE, offset=OFFSET, **how):
    mean, _ = statistics(net, x, **how)
    total = net.graph.node("sum").output()
    y = net.op("RealDiv", net.op("Sub", x, mean), net.op("Sqrt", total))
    y = y if scale is None else net.op("Mul", y, scale, name="scaled")
    return y if offset is None else net.op("AddV2", y, offset, name="y")


FORMS = [centred, applied, negated, divided]


@pytest.mark.parametrize("offset", [OFFSET, None])
@pytest.mark.parametrize("scale", [SCALE, SCALE.reshape(1, 1, 8), None])
@pytest.mark.parametrize("form", FORMS)
def test_every_form(form, scale, offset):
    net = Net()
    assert net.check(form(net, net.feed(X), scale, offset)) == ["LayerNormalization"]


@pytest.mark.parametrize("form", FORMS)
def test_over_several_axes(form):
    net = Net()
    y = form(net, net.feed(X), floats(5, 8), floats(5, 1), axes=(2, 1))
    assert net.check(y) == ["LayerNormalization"]


def test_an_open_batch():
    net = Net()
    assert net.check(centred(net, net.feed(X, shape=(None, 5, 8)))) == ["LayerNormalization"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"axes": (1,), "scale": None, "offset": np.float32(1)}, id="over rows"),
        pytest.param({"axes": (0, 2)}, id="over other axes"),
        pytest.param(
            {"scale": floats(5, 1, low=0.5), "offset": floats(5, 8)}, id="a scale of its own for each row"
        ),
    ],
)
def test_another_norm_stays_right(form, how):
    net = Net()
    net.check(form(net, net.feed(X), **how))


def test_the_variance_of_something_else_stays():
    net = Net()
    x = net.feed(X)
    codes = net.check(centred(net, x, center=net.op("Relu", x)))
    assert "LayerNormalization" not in codes


def test_where_axes_are_operands():
    net = Net()
    net.opset = 21
    assert net.check(centred(net, net.feed(X))) == ["LayerNormalization"]


def test_statistics_that_others_read():
    net = Net()
    x = net.feed(X)
    y = centred(net, x)
    codes = net.check(y, net.graph.node("mean").output())
    assert sorted(codes) == ["LayerNormalization", "ReduceMean"]


def test_in_core_ml(tmp_path):
    """One operator there as well, which is read back as it was."""
    pytest.importorskip("coremltools")
    net = Net()
    x = net.feed(X)
    net.graph.inputs, net.graph.outputs = [x], [centred(net, x)]
    thinflow.save(net.graph, tmp_path / "m.mlpackage")
    again = thinflow.load(tmp_path / "m.mlpackage")
    (wanted,) = net.reference(*net.graph.outputs)
    (found,) = thinflow.run(again, {again.inputs[0].name: X}, engine="reference").values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
