"""How other systems write on a pod which cards it got.

Written with the Binding, settled after the allocation, read where their pods are taken over.
"""

from accelkit.vendors.annotations.cards_by_container import CardsByContainer
from accelkit.vendors.annotations.container_limits import write_container_limits
from accelkit.vendors.annotations.granted import Granted
from accelkit.vendors.annotations.one_card import OneCard
from accelkit.vendors.annotations.slices import Slices

Annotations = OneCard | CardsByContainer | Slices

__all__ = ["Annotations", "CardsByContainer", "Granted", "OneCard", "Slices", "write_container_limits"]
