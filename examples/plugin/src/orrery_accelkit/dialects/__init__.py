"""The dialects of Orrery, one YAML file for each."""

ACCELKIT_INTERFACE = 1
