"""Switches a kube-scheduler to our configuration and back, however it is started."""
