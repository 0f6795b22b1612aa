"""Functions that switch kube-scheduler to accelkit's configuration, and that restore the previous configuration."""
