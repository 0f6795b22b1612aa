"""What runs in the check pod: it reads the share that it was given, opens its devices and computes with them."""
