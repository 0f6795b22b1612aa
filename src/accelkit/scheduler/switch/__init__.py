"""How the switch is made and undone."""
