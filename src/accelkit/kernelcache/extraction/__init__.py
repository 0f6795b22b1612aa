"""Atomic extraction of a verified cache image to a folder."""

from accelkit.kernelcache.extraction.folder import read_completed
from accelkit.kernelcache.extraction.image import extract_image, judge_again
from accelkit.kernelcache.extraction.record import CompletionRecord
from accelkit.kernelcache.extraction.request import ExtractionRequest, ExtractionResult
from accelkit.kernelcache.extraction.rules import Limits

__all__ = [
    "CompletionRecord",
    "ExtractionRequest",
    "ExtractionResult",
    "Limits",
    "extract_image",
    "judge_again",
    "read_completed",
]
