"""`accelkit explain`: reasons why a pod is pending, and changes after which it would fit."""
