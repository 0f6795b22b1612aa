"""Entry point of `python -m accelkit`."""

from __future__ import annotations

from accelkit.cli import main

main(prog_name="accelkit")
