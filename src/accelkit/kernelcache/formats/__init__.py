"""Formats of caches: folders as the frameworks leave them, and the labels and manifest of an image, in MCV's words."""

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
