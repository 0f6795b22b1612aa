"""Extraction: the files of a verified cache image, onto a disk, whole or not at all."""

from accelkit.kernelcache.extraction.folder import completed
from accelkit.kernelcache.extraction.image import extract_image
from accelkit.kernelcache.extraction.order import Extracted, Order
from accelkit.kernelcache.extraction.record import CompletionRecord
from accelkit.kernelcache.extraction.rules import Limits

__all__ = ["CompletionRecord", "Extracted", "Limits", "Order", "completed", "extract_image"]
