"""Functions that switch kube-scheduler to accelkit's configuration and back."""
