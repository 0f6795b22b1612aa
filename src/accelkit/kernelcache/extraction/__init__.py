"""Extraction: the files of a verified cache image, onto a disk, whole or not at all."""

from accelkit.kernelcache.extraction.folder import CompletionRecord, completed
from accelkit.kernelcache.extraction.image import Extracted, Order, extract_image
from accelkit.kernelcache.extraction.rules import Limits

__all__ = ["CompletionRecord", "Extracted", "Limits", "Order", "completed", "extract_image"]
