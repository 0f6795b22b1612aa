"""`accelkit explain`: the reasons why a pod is pending, and the changes after which it would fit."""
