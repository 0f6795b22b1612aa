"""A host that offers nothing but a POSIX shell, reached by whatever can run a script there.

No Python is needed, nor anything beyond what every shell environment has, busybox included.
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

# Runs a script with some bytes as its standard input; returns the exit status, its output and its errors.
Execute = Callable[[str, bytes], tuple[int, str, str]]

_ABSENT: Final = "accelkit: absent"
_KINDS: Final[dict[str, Literal["file", "folder", "link"]]] = {"-": "file", "d": "folder", "l": "link"}
_LISTED: Final = re.compile(r"(?P<kind>.)(?P<mode>[-rwxsStT]{9})\S*\s+\d+\s+(?P<uid>\d+)\s+(?P<gid>\d+)\s")
# A link that leads nowhere is there, too; and what lies in a folder that cannot be entered is unknown, not absent.
_UNLESS_THERE: Final = """\
if [ ! -e {path} ] && [ ! -L {path} ]; then
  above={path}
  while above=${{above%/*}}; [ -n "$above" ] && [ ! -d "$above" ]; do :; done
  [ -x "${{above:-/}}" ] || {{ echo "$above cannot be entered" >&2; exit 1; }}
  echo '{absent}'; exit 0
fi
"""
# The answers of both encoders hold no byte that a connection might change on its way.
_READ: Final = """\
if command -v base64 >/dev/null 2>&1; then echo base64; base64 < {path}
else echo od; od -An -v -tx1 < {path}; fi
"""
_WRITE: Final = """\
set -eu
umask 077
path={path} folder={folder} unfinished={unfinished}
[ ! -d "$path" ] || {{ echo 'it is a folder' >&2; exit 1; }}
trap 'rm -f "$unfinished"' EXIT
if [ {size} -gt 0 ]; then cat; fi > "$unfinished"
[ "$(wc -c < "$unfinished")" -eq {size} ] || {{ echo 'the content did not arrive whole' >&2; exit 1; }}
chown {uid}:{gid} "$unfinished"
chmod {mode} "$unfinished"
sync "$unfinished" 2>/dev/null || sync
mv -f "$unfinished" "$path"
trap - EXIT
sync "$folder" 2>/dev/null || sync
"""
_ASK: Final = """\
if command -v curl >/dev/null 2>&1; then curl -fsk --max-time {seconds} -o /dev/null {url} && echo yes || echo no
elif command -v wget >/dev/null 2>&1; then
  wget -q -T {seconds} -t 1 --no-check-certificate -O /dev/null {url} && echo yes || echo no
fi 2>/dev/null
"""


class ShellHost:
    """A host behind a shell; `execute` must end by itself where the host does not answer."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def read_status(self, path: str) -> FileStatus | None:
        """Return what lies at a path; see Host."""
        output = self._answer(f"{_unless_there(path)}LC_ALL=C ls -ldn -- {_q(path)}", "cannot be looked at", path)
        if output.strip() == _ABSENT:
            return None
        match = _LISTED.match(output)
        if match is None:
            raise ConfigurationError(f"{path} cannot be looked at: the host's ls answered {output.strip()[:200]!r}")
        return FileStatus(
            _KINDS.get(match["kind"], "other"), _octal(match["mode"]), int(match["uid"]), int(match["gid"])
        )

    def read(self, path: str) -> bytes | None:
        """Return a file's content; see Host."""
        output = self._answer(f"{_unless_there(path)}{_READ.format(path=_q(path))}", "cannot be read", path)
        encoding, _, body = output.partition("\n")
        if encoding.strip() == _ABSENT:
            return None
        try:
            return base64.b64decode(body) if encoding.strip() == "base64" else bytes.fromhex(body)
        except (binascii.Error, ValueError) as exc:
            raise ConfigurationError(f"{path} cannot be read: the output is not valid {encoding.strip()}") from exc

    def write(self, path: str, content: bytes, *, mode: str, uid: int, gid: int) -> None:
        """Put a file in place; see Host."""
        place = PurePosixPath(path)
        script = _WRITE.format(
            # A name of its own, so that two writers never write into one file.
            unfinished=_q(str(place.with_name(f"{UNFINISHED_PREFIX}{place.name}.{secrets.token_hex(4)}"))),
            size=len(content),
            uid=uid,
            gid=gid,
            mode=mode,
            path=_q(path),
            folder=_q(str(place.parent)),
        )
        self._answer(script, "cannot be written", path, content)

    def make_folder(self, path: str, *, mode: str) -> None:
        """Make one folder; see Host."""
        self._answer(f"[ -d {_q(path)} ] || mkdir -- {_q(path)} && chmod {mode} {_q(path)}", "cannot be made", path)

    def remove(self, path: str) -> None:
        """Delete a file; see Host."""
        self._answer(f"rm -f -- {_q(path)}", "cannot be deleted", path)

    def remove_empty_folder(self, path: str) -> None:
        """Delete a folder if it is empty; see Host."""
        script = f'[ ! -d {_q(path)} ] || [ -n "$(ls -A -- {_q(path)})" ] || rmdir -- {_q(path)}'
        self._answer(script, "cannot be deleted", path)

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; see Host."""
        output = self._answer(f"[ ! -d {_q(folder)} ] || LC_ALL=C ls -A1 -- {_q(folder)}", "cannot be listed", folder)
        return sorted(output.splitlines())

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command; see Host."""
        status, output, errors = self._execute(f"{shlex.join(command)} 2>&1", b"")
        return status, output + errors

    def probe_url(self, url: str) -> bool | None:
        """Return whether a GET is answered with 200; see Host."""
        status, output, _ = self._execute(_ASK.format(url=_q(url), seconds=ANSWER_SECONDS), b"")
        return {"yes": True, "no": False}.get(output.strip()) if status == 0 else None

    def _answer(self, script: str, failure: str, path: str, content: bytes = b"") -> str:
        status, output, errors = self._execute(script, content)
        if status:
            reason = " ".join((errors or output).split())[-500:] or f"the shell ended with {status}"
            raise ConfigurationError(f"{path} {failure}: {reason}")
        return output


def _unless_there(path: str) -> str:
    return _UNLESS_THERE.format(path=_q(path), absent=_ABSENT)


def _q(text: str) -> str:
    return shlex.quote(text)


def _octal(letters: str) -> str:
    bits = sum(1 << (8 - index) for index, letter in enumerate(letters) if letter not in "-ST")
    special = sum(4 >> index for index, letter in enumerate(letters[2::3]) if letter in "sStT")
    return f"{special:o}{bits:03o}"
