"""Program of the check pod, which reads its share, opens its devices and runs a computation on them."""
