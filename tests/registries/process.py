"""Servers as processes of their own, which say where they listen and end with the test."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import IO

__all__ = ["listening"]

_DEADLINE = 30.0


@contextlib.contextmanager
def listening(command: Sequence[str], *, says: str) -> Iterator[str]:
    """Start a server, and end it afterwards.

    Args:
        command: the executable and its arguments.
        says: a regular expression for the line that tells the address, with one group for that.

    Yields:
        the address.
    """
    heard = Future[str]()
    lines: list[str] = []
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        assert process.stdout is not None
        reader = threading.Thread(target=_listen, args=(process.stdout, re.compile(says), lines, heard), daemon=True)
        reader.start()
        try:
            yield _address(heard, command, lines)
        finally:
            process.terminate()
            try:
                process.wait(_DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
            reader.join(_DEADLINE)


def _address(heard: Future[str], command: Sequence[str], lines: Sequence[str]) -> str:
    try:
        return heard.result(_DEADLINE)
    except (TimeoutError, EOFError) as error:
        raise AssertionError(f"{command[0]} does not listen: {''.join(lines[-20:])}") from error


def _listen(output: IO[str], pattern: re.Pattern[str], lines: list[str], heard: Future[str]) -> None:
    """Read to the end, so that the server never waits for us."""
    for line in output:
        lines.append(line)
        if not heard.done() and (found := pattern.search(line)):
            heard.set_result(found[1])
    if not heard.done():
        heard.set_exception(EOFError())
