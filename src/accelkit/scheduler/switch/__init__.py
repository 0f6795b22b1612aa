"""Functions that switch kube-scheduler, and undo the switch."""
