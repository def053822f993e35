"""Pictures and sounds to labels, as TensorFlow's label_image and label_wav prepare and rank them."""

from thinflow.compat.label_image.pictures import Preparation, as_of_2015, picture, picture_feeds
from thinflow.compat.label_image.ranking import (
    PICTURES,
    SOUNDS,
    Clock,
    Guess,
    files_of,
    label_files,
    layers,
    ranked,
    read_labels,
)
from thinflow.compat.label_image.sounds import sound_feeds
from thinflow.compat.label_image.stated import StatedUse

__all__ = [
    "PICTURES",
    "SOUNDS",
    "Clock",
    "Guess",
    "Preparation",
    "StatedUse",
    "as_of_2015",
    "files_of",
    "label_files",
    "layers",
    "picture",
    "picture_feeds",
    "ranked",
    "read_labels",
    "sound_feeds",
]
