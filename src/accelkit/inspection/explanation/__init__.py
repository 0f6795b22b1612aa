"""`accelkit explain`: the reasons why a pod is pending, and the changes that would make it fit."""
