"""The disk on which our services keep their logs: a tmpfs that can be full. Only root may mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SIZE = "1g"
SECONDS = 20


class SmallDisk:
    """A folder of its own file system.

    Attributes:
        folder: where it is, or an ordinary folder where nothing can be mounted.
        mounted: whether it can be full.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted = False

    def mount(self) -> None:
        """Make the folder, and mount the file system where that is allowed."""
        self.folder.mkdir(parents=True)
        if os.geteuid() == 0 and shutil.which("mount"):
            self.mounted = self._run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "accelkit", self.folder)

    def fill(self) -> None:
        """Leave no room for another byte."""
        used = shutil.disk_usage(self.folder).used
        self._resize(str(max(used, os.sysconf("SC_PAGE_SIZE"))))

    def free(self) -> None:
        """Make room again."""
        self._resize(SIZE)

    def unmount(self) -> None:
        if self.mounted:
            self.mounted = not self._run("umount", "--lazy", self.folder)

    def _resize(self, size: str) -> None:
        if self.mounted:
            self._run("mount", "-o", f"remount,size={size}", self.folder)

    @staticmethod
    def _run(*command: str | Path) -> bool:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
        return done.returncode == 0
