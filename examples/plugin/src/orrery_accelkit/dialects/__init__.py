"""The dialects of Orrery, with one YAML file for each dialect."""

ACCELKIT_INTERFACE = 1
