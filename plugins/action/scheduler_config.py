# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import base64
import json
import tempfile
from pathlib import PurePosixPath
from typing import NamedTuple

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

IMPORT_ERROR = None
try:
    from accelkit.controlplane.configuration import Extender, with_extender
    from accelkit.controlplane.record import (
        Record,
        decode_record,
        digest,
        encode_record,
        original_of,
        original_path,
        record_path,
        restored,
    )
    from accelkit.errors import AccelkitError
except ImportError as exc:
    IMPORT_ERROR = exc

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "backup_dir": {"type": "path", "default": "/var/lib/accelkit/backup"},
    "extender": {
        "type": "dict",
        "options": {
            "url_prefix": {"type": "str", "required": True},
            "weight": {"type": "int", "default": 1},
            "http_timeout": {"type": "str", "default": "10s"},
            "enable_https": {"type": "bool", "default": False},
            "tls_config": {"type": "dict"},
            "node_cache_capable": {"type": "bool", "default": True},
            "ignorable": {"type": "bool", "default": False},
            "managed_resources": {
                "type": "list",
                "elements": "str",
                "default": ["accelkit.io/memory", "accelkit.io/cards"],
            },
        },
    },
}


class Found(NamedTuple):
    """The file as it is, and what was recorded of it."""

    content: bytes
    stat: dict
    place: str
    record: object


class ActionModule(ActionBase):
    """Decides here what the file becomes; on the managed host only files are read and written."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if IMPORT_ERROR is not None:
            raise AnsibleActionFail(
                f"the controller's Python cannot import accelkit ({IMPORT_ERROR}); install it there with pip"
            )
        _result, arguments = self.validate_argument_spec(
            argument_spec=ARGUMENTS, required_if=[("state", "present", ["extender"])]
        )
        self._task_vars = task_vars
        # Through JSON, because Ansible's strings carry tags that writers of YAML and JSON do not know.
        given = json.loads(json.dumps(arguments))
        try:
            found = self._find(given)
            return self._present(given, found) if given["state"] == "present" else self._absent(given, found)
        except AccelkitError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        finally:
            self._remove_tmp_path(self._shell.tmpdir)

    def _find(self, given):
        path = given["path"]
        place = record_path(given["backup_dir"], path)
        stat = self._stat(path)
        if not stat["exists"]:
            raise AnsibleActionFail(f"there is no file {path}; give the path that kube-scheduler has in --config")
        content = self._read(path)
        try:
            content.decode()
        except UnicodeDecodeError as exc:
            raise AnsibleActionFail(f"{path} is not UTF-8 text: {exc}") from exc
        record = decode_record(self._read(place), place) if self._stat(place)["exists"] else None
        return Found(content, stat, place, record)

    def _present(self, given, found):
        extender = given["extender"]
        wanted = Extender(**{**extender, "managed_resources": tuple(extender["managed_resources"])})
        new = with_extender(found.content.decode(), wanted).encode()
        if new != found.content and not self._task.check_mode:
            self._keep(given, found, new)
            self._write(given["path"], new, mode=found.stat["mode"])
        return result_of(given["path"], found.content, new)

    def _keep(self, given, found, new):
        # Recorded before the change: a run that is cut off here leaves a file that is not as recorded, which removal
        # treats as changed by others.
        folder, stat, record = given["backup_dir"], found.stat, found.record
        original = original_of(found.content, record, given["extender"]["url_prefix"])
        written = {"path": given["path"], "written_sha256": digest(new)}
        if original is None:
            kept = Record(mode=record.mode, uid=record.uid, gid=record.gid, sha256=record.sha256, **written)
        else:
            kept = Record(mode=str(stat["mode"]), uid=stat["uid"], gid=stat["gid"], sha256=digest(original), **written)
        self._run("file", path=folder, state="directory", mode="0700")
        if original is not None:
            self._write(original_path(folder, kept.sha256), original, mode="0600")
        self._write(found.place, encode_record(kept), mode="0600")
        if record is not None and record.sha256 != kept.sha256:
            self._run("file", path=original_path(folder, record.sha256), state="absent")

    def _absent(self, given, found):
        path, record = given["path"], found.record
        kept = original_path(given["backup_dir"], record.sha256) if record else ""
        original = self._read(kept) if kept and self._stat(kept)["exists"] else None
        target = restored(found.content, record, original, (given["extender"] or {}).get("url_prefix", ""))
        result = {**result_of(path, found.content, target.content), "restored": target.exact}
        if self._task.check_mode:
            return result
        if target.exact:
            self._write(path, target.content, mode=record.mode, owner=str(record.uid), group=str(record.gid))
        elif result["changed"]:
            self._write(path, target.content, mode=found.stat["mode"])
        if record is not None:
            self._run("file", path=found.place, state="absent")
            self._run("file", path=kept, state="absent")
        return result

    @property
    def _shell(self):
        return self._connection._shell  # noqa: SLF001 - the only way to the folder for temporary files

    def _stat(self, path):
        return self._run("stat", path=path, follow=True, get_checksum=False, get_mime=False)["stat"]

    def _read(self, path):
        return base64.b64decode(self._run("slurp", src=path)["content"])

    def _write(self, path, content, **attributes):
        if self._shell.tmpdir is None:
            self._make_tmp_path()
        name = PurePosixPath(path).name
        with tempfile.NamedTemporaryFile() as local:
            local.write(content)
            local.flush()
            remote = self._shell.join_path(self._shell.tmpdir, name)
            self._transfer_file(local.name, remote)
            self._fixup_perms2((self._shell.tmpdir, remote))
            # The copy module moves the file into place: kube-scheduler and the kubelet never see half of it.
            self._run("copy", src=remote, dest=path, _original_basename=name, **attributes)

    def _run(self, module, **arguments):
        # Reading must happen in check mode too, and nothing is written in it: the modules need not know of it.
        check_mode, self._task.check_mode = self._task.check_mode, False
        try:
            result = self._execute_module(
                module_name=f"ansible.legacy.{module}", module_args=arguments, task_vars=self._task_vars
            )
        finally:
            self._task.check_mode = check_mode
        if result.get("failed"):
            raise AnsibleActionFail(result.get("msg", f"{module} failed"), result=result)
        return result


def result_of(path, before, after):
    """Return what the task says of a file that was `before` and is, or would be, `after`."""
    diff = {"before_header": path, "after_header": path, "before": before.decode(), "after": after.decode()}
    changed = before != after
    return {"changed": changed, "path": path, "sha256": digest(after), "diff": [diff] if changed else []}
