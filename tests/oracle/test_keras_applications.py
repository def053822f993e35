"""The networks of keras.applications, with random weights, compute what they compute in Keras.

All of them take an hour: a few are always tried, the rest with THINFLOW_ALL_NETWORKS=1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.night import ALL_NETWORKS
from tests.oracle import _keras_models as models

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.filterwarnings("default")]
_FAMILIES = {
    "": ("VGG16", "VGG19", "Xception", "InceptionV3", "InceptionResNetV2", "NASNetMobile", "NASNetLarge"),
    "MobileNet": ("", "V2", "V3Small", "V3Large"),
    "ResNet": ("50", "101", "152", "50V2", "101V2", "152V2"),
    "DenseNet": ("121", "169", "201"),
    "EfficientNet": (*(f"B{n}" for n in range(8)), "V2B0", "V2B1", "V2B2", "V2B3", "V2S", "V2M", "V2L"),
    "ConvNeXt": ("Tiny", "Small", "Base", "Large", "XLarge"),
}
NETWORKS = [family + kind for family, kinds in _FAMILIES.items() for kind in kinds]
FEW = ("MobileNetV2", "MobileNetV3Small", "ResNet50V2", "EfficientNetB0")
TRIED = NETWORKS if ALL_NETWORKS else FEW


def network(generation: int, name: str) -> tuple[Any, list[np.ndarray]]:
    keras = models.package(generation)
    # Only NASNet asks for the size that it was made for.
    size = {
        "NASNetMobile": 224,
        "NASNetLarge": 331,
        "Xception": 96,
        "InceptionV3": 96,
        "InceptionResNetV2": 96,
    }.get(name, 64)
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10)
    rng = np.random.default_rng(len(name))
    # With random statistics the numbers of these grow from block to block, until a change of the input by a
    # millionth changes the answer by a hundredth: nothing could be compared. In the deepest of them they do
    # so with the statistics that Keras begins with, too; smaller factors let each block add a little, of
    # which the last layer makes more again.
    is_growing = name.startswith("EfficientNetV2")
    for weight in model.weights:
        path = getattr(weight, "path", weight.name)
        if is_growing:
            if name.endswith("L") and "gamma" in path:
                weight.assign(rng.uniform(0.75, 0.95, weight.shape))
            elif name.endswith("L") and "predictions" in path and "kernel" in path:
                weight.assign(300 * np.asarray(weight))
        elif "moving_variance" in path:
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif any(word in path for word in ("moving_mean", "beta", "bias")):
            weight.assign(rng.normal(0, 0.1, weight.shape))
    return model, [rng.uniform(0, 255, (2, size, size, 3)).astype(np.float32)]


@pytest.mark.parametrize("generation", [2, 3])
@pytest.mark.parametrize("name", TRIED)
def test_application(name: str, generation: int, tmp_path: Path) -> None:
    model, inputs = network(generation, name)
    for suffix in (".keras", ".h5"):
        models.compare(model, inputs, tmp_path / f"model{suffix}")
