"""`accelkit explain`: reasons why a pod is pending, and changes that would make it fit."""
