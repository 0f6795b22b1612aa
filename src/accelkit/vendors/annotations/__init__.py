"""Formats of the pod annotations in which other systems record a pod's cards.

accelkit writes the annotations with the Binding, completes them after the allocation, and reads them when it adopts
pods from the other system.
"""

from accelkit.vendors.annotations.cards_by_container import CardsByContainer
from accelkit.vendors.annotations.container_limits import write_container_limits
from accelkit.vendors.annotations.granted import Granted
from accelkit.vendors.annotations.one_card import OneCard
from accelkit.vendors.annotations.slices import Slices

Annotations = OneCard | CardsByContainer | Slices

__all__ = ["Annotations", "CardsByContainer", "Granted", "OneCard", "Slices", "write_container_limits"]
