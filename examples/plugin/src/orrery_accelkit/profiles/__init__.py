"""The profiles of Orrery, one YAML file for each."""

ACCELKIT_INTERFACE = 1
