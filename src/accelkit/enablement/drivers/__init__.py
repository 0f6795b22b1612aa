"""Card drivers: an image for each kernel, upgrades node by node, and predictions about future versions."""
