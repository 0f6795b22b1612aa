"""Cache formats: the folders of the frameworks, and the labels and manifest of an image as defined by MCV."""

from accelkit.kernelcache.formats.cache import FORMATS, Cache, Target
from accelkit.kernelcache.formats.detection import read_cache
from accelkit.kernelcache.formats.label_reading import ImageLabels, read_labels
from accelkit.kernelcache.formats.labels import write_labels, write_manifest

__all__ = [
    "FORMATS",
    "Cache",
    "ImageLabels",
    "Target",
    "read_cache",
    "read_labels",
    "write_labels",
    "write_manifest",
]
