"""What runs on each node: device plugin, pod resources, discovery, health, labels."""
