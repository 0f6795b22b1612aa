"""Programs in the place of accelkit's own command."""

from __future__ import annotations

import os
from pathlib import Path


def write_accelkit(folder: Path, text: str) -> dict[str, str]:
    """Put a program in the place of accelkit's command; return the environment that finds it."""
    package = folder / "accelkit"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(text)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
