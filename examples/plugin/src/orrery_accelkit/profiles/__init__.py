"""The profiles of Orrery, with one YAML file for each profile."""

ACCELKIT_INTERFACE = 1
