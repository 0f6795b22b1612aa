"""Host that is accessible only through a POSIX shell, by a function that runs scripts on the host.

The host does not need Python. The scripts use only commands that are available on all hosts, including hosts with
busybox.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal

from accelkit.errors import ConfigurationError
from accelkit.scheduler.host.host import ANSWER_SECONDS, UNFINISHED_PREFIX, FileStatus

# Function that runs a script with these bytes as standard input, and returns the exit status, standard output and
# standard error.
Execute = Callable[[str, bytes], tuple[int, str, str]]

_ABSENT: Final = "accelkit: absent"
_KINDS: Final[dict[str, Literal["file", "folder", "link"]]] = {"-": "file", "d": "folder", "l": "link"}
_LS_LINE: Final = re.compile(r"(?P<kind>.)(?P<mode>[-rwxsStT]{9})\S*\s+\d+\s+(?P<uid>\d+)\s+(?P<gid>\d+)\s")
# A broken link counts as an existing path. A path in a folder that cannot be searched is unknown, not absent.
_UNLESS_PRESENT: Final = """\
if [ ! -e {path} ] && [ ! -L {path} ]; then
  above={path}
  while above=${{above%/*}}; [ -n "$above" ] && [ ! -d "$above" ]; do :; done
  [ -x "${{above:-/}}" ] || {{ echo "cannot search $above" >&2; exit 1; }}
  echo '{absent}'; exit 0
fi
"""
# Both encodings, base64 and hexadecimal, contain only bytes that a connection does not change.
_READ: Final = """\
if command -v base64 >/dev/null 2>&1; then echo base64; base64 < {path}
else echo od; od -An -v -tx1 < {path}; fi
"""
_WRITE: Final = """\
set -eu
umask 077
path={path} folder={folder} unfinished={unfinished}
[ ! -d "$path" ] || {{ echo 'it is a directory' >&2; exit 1; }}
trap 'rm -f "$unfinished"' EXIT
if [ {size} -gt 0 ]; then cat; fi > "$unfinished"
[ "$(wc -c < "$unfinished")" -eq {size} ] || {{ echo 'the received content is incomplete' >&2; exit 1; }}
chown {uid}:{gid} "$unfinished"
chmod {mode} "$unfinished"
sync "$unfinished" 2>/dev/null || sync
mv -f "$unfinished" "$path"
trap - EXIT
sync "$folder" 2>/dev/null || sync
"""
_PROBE: Final = """\
if command -v curl >/dev/null 2>&1; then curl -fsk --max-time {seconds} -o /dev/null {url} && echo yes || echo no
elif command -v wget >/dev/null 2>&1; then
  wget -q -T {seconds} -t 1 --no-check-certificate -O /dev/null {url} && echo yes || echo no
fi 2>/dev/null
"""


class ShellHost:
    """A host that is accessible through a shell; `execute` must enforce its own time limit."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def read_status(self, path: str) -> FileStatus | None:
        """Return the status of a path; see Host."""
        output = self._answer(f"{_unless_present(path)}LC_ALL=C ls -ldn -- {_q(path)}", "read the status of", path)
        if output.strip() == _ABSENT:
            return None
        match = _LS_LINE.match(output)
        if match is None:
            raise ConfigurationError(
                f"cannot read the status of {path}: ls on the host printed {output.strip()[:200]!r}"
            )
        return FileStatus(
            _KINDS.get(match["kind"], "other"), _octal(match["mode"]), int(match["uid"]), int(match["gid"])
        )

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; see Host."""
        output = self._answer(f"{_unless_present(path)}{_READ.format(path=_q(path))}", "read", path)
        encoding, _, body = output.partition("\n")
        if encoding.strip() == _ABSENT:
            return None
        try:
            return base64.b64decode(body) if encoding.strip() == "base64" else bytes.fromhex(body)
        except (binascii.Error, ValueError) as exc:
            raise ConfigurationError(f"cannot read {path}: the output is not valid {encoding.strip()}") from exc

    def write(self, path: str, content: bytes, *, mode: str, uid: int, gid: int) -> None:
        """Replace or create a file; see Host."""
        place = PurePosixPath(path)
        script = _WRITE.format(
            # The name is random, so that two writers never write to the same file.
            unfinished=_q(str(place.with_name(f"{UNFINISHED_PREFIX}{place.name}.{secrets.token_hex(4)}"))),
            size=len(content),
            uid=uid,
            gid=gid,
            mode=mode,
            path=_q(path),
            folder=_q(str(place.parent)),
        )
        self._answer(script, "write", path, content)

    def make_folder(self, path: str, *, mode: str) -> None:
        """Create one folder; see Host."""
        self._answer(f"[ -d {_q(path)} ] || mkdir -- {_q(path)} && chmod {mode} {_q(path)}", "create", path)

    def remove(self, path: str) -> None:
        """Delete a file; see Host."""
        self._answer(f"rm -f -- {_q(path)}", "delete", path)

    def remove_empty_folder(self, path: str) -> None:
        """Delete a folder if it is empty; see Host."""
        script = f'[ ! -d {_q(path)} ] || [ -n "$(ls -A -- {_q(path)})" ] || rmdir -- {_q(path)}'
        self._answer(script, "delete", path)

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; see Host."""
        output = self._answer(f"[ ! -d {_q(folder)} ] || LC_ALL=C ls -A1 -- {_q(folder)}", "list", folder)
        return sorted(output.splitlines())

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command; see Host."""
        status, output, errors = self._execute(f"{shlex.join(command)} 2>&1", b"")
        return status, output + errors

    def probe_url(self, url: str) -> bool | None:
        """Return whether a GET request returns 200; see Host."""
        status, output, _ = self._execute(_PROBE.format(url=_q(url), seconds=ANSWER_SECONDS), b"")
        return {"yes": True, "no": False}.get(output.strip()) if status == 0 else None

    def _answer(self, script: str, operation: str, path: str, content: bytes = b"") -> str:
        status, output, errors = self._execute(script, content)
        if status:
            reason = " ".join((errors or output).split())[-500:] or f"the shell exited with {status}"
            raise ConfigurationError(f"cannot {operation} {path}: {reason}")
        return output


def _unless_present(path: str) -> str:
    return _UNLESS_PRESENT.format(path=_q(path), absent=_ABSENT)


def _q(text: str) -> str:
    return shlex.quote(text)


def _octal(letters: str) -> str:
    bits = sum(1 << (8 - index) for index, letter in enumerate(letters) if letter not in "-ST")
    special = sum(4 >> index for index, letter in enumerate(letters[2::3]) if letter in "sStT")
    return f"{special:o}{bits:03o}"
