"""Deliveries `namespace` and `image`: claims that Jobs fill, and image volumes that nodes pull in advance."""

from accelkit.cachecontroller.filling.image import ImageDelivery, build_image_volume
from accelkit.cachecontroller.filling.namespace import NamespaceDelivery

__all__ = ["ImageDelivery", "NamespaceDelivery", "build_image_volume"]
