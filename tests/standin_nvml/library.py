"""Builds the library, which is C, with the machine's own compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

LIBRARY: Final = "libnvidia-ml.so.1"
_SOURCES: Final = sorted(Path(__file__).parent.glob("*.c"))
_OPTIONS: Final = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}")


def build_library(folder: Path) -> Path | None:
    """Build the library into a folder and return its path; None where there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    built = folder / LIBRARY
    subprocess.run([compiler, *_OPTIONS, "-o", built, *_SOURCES, "-ldl"], check=True)
    return built
