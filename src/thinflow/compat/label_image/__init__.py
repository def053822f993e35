"""Pictures and sounds to labels, as TensorFlow's label_image and label_wav prepare and rank them."""

from thinflow.compat.label_image.generations import as_of_2015
from thinflow.compat.label_image.names import PICTURES, SOUNDS, files_of, read_labels
from thinflow.compat.label_image.pictures import Preparation, picture, picture_feeds
from thinflow.compat.label_image.ranking import Clock, Guess, label_files, layers, ranked
from thinflow.compat.label_image.sounds import sound_feeds

__all__ = [
    "PICTURES",
    "SOUNDS",
    "Clock",
    "Guess",
    "Preparation",
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
