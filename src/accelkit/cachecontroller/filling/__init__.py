"""Delivery `namespace`, which uses claims that Jobs fill, and `image`, which uses images that nodes pull in advance."""

from accelkit.cachecontroller.filling.image import ImageDelivery, build_image_volume
from accelkit.cachecontroller.filling.namespace import NamespaceDelivery

__all__ = ["ImageDelivery", "NamespaceDelivery", "build_image_volume"]
