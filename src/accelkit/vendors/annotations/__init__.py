"""Formats in which other systems record a pod's cards on the pod.

They are written with the Binding, completed after the allocation, and read when pods of the system are adopted.
"""

from accelkit.vendors.annotations.cards_by_container import CardsByContainer
from accelkit.vendors.annotations.container_limits import write_container_limits
from accelkit.vendors.annotations.granted import Granted
from accelkit.vendors.annotations.one_card import OneCard
from accelkit.vendors.annotations.slices import Slices

Annotations = OneCard | CardsByContainer | Slices

__all__ = ["Annotations", "CardsByContainer", "Granted", "OneCard", "Slices", "write_container_limits"]
