"""Deliveries `namespace` and `image`, which use claims that Jobs fill, and images that nodes pull in advance."""

from accelkit.cachecontroller.filling.image import ImageDelivery, build_image_volume
from accelkit.cachecontroller.filling.namespace import NamespaceDelivery

__all__ = ["ImageDelivery", "NamespaceDelivery", "build_image_volume"]
