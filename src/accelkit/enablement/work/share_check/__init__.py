"""Program of the check pod, which reads the pod's share, opens the devices and runs a computation on them."""
