"""The node agent: device plugin, pod resources, discovery, health, labels."""
