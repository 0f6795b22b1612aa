# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import shlex

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.accelkit.kubernetes.plugins.modules.node_image import DOCUMENTATION
from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._documented import read_argument_spec

# The command depends on the node's container runtime. For containerd, it uses the namespace of the kubelet.
RUNTIME = """\
if command -v ctr >/dev/null 2>&1; then echo ctr -n k8s.io
elif command -v k3s >/dev/null 2>&1; then echo k3s ctr -n k8s.io
elif command -v docker >/dev/null 2>&1; then echo docker
elif command -v podman >/dev/null 2>&1; then echo podman
fi
"""


class ActionModule(ActionBase):
    """Action that imports an image archive on a node, which needs only a shell and its container runtime."""

    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, given = self.validate_argument_spec(
            argument_spec=read_argument_spec(DOCUMENTATION), required_if=[("state", "present", ["tag", "archive"])]
        )
        self._given = given
        self._runtime = self._run_script(RUNTIME).strip()
        if not self._runtime:
            raise AnsibleActionFail(
                "the node has none of ctr, k3s, docker and podman; let it pull the image from a registry"
            )
        wanted = f"{given['repository']}:{given['tag']}" if given["state"] == "present" else ""
        have = self._images()
        stale = sorted(name for name in have if not wanted or have[name] != have.get(wanted))
        missing = bool(wanted) and wanted not in have
        if not self._task.check_mode:
            if missing:
                self._load(given["archive"])
                have = self._images()
                if wanted not in have:
                    raise AnsibleActionFail(f"{given['archive']} does not contain the image {wanted}")
            for name in stale:
                self._remove(name)
        reference = self._pinned(wanted, have.get(wanted, "")) if wanted and wanted in have else wanted
        return {"changed": missing or bool(stale), "reference": reference, "removed": stale}

    def _images(self):
        """Return the names of the repository's images on the node, with their digests or identifiers."""
        if "ctr" in self._runtime:
            # REF TYPE DIGEST SIZE ...
            rows = [line.split() for line in self._run_script(f"{self._runtime} images ls").splitlines()[1:]]
            images = {row[0]: row[2] for row in rows}
        else:
            lines = self._run_script(
                f"{self._runtime} images --no-trunc --format '{{{{.Repository}}}}:{{{{.Tag}}}} {{{{.ID}}}}'"
            )
            images = dict(line.split() for line in lines.splitlines())
        repository = self._given["repository"]
        ours = {name: where for name, where in images.items() if name.startswith((f"{repository}:", f"{repository}@"))}
        others = {where for name, where in images.items() if name not in ours and not name.startswith("sha256:")}
        # The container runtime interface also lists each image under its ID. If this name is not deleted, the image
        # remains.
        for name, where in images.items():
            if name.startswith("sha256:") and where in set(ours.values()) - others:
                ours[name] = where
        return ours

    def _load(self, archive):
        # Run as the login user, because this user also copies the file. Ansible's temporary folder would remain on the
        # node.
        place = self._low_level_execute_command("mktemp", sudoable=False)["stdout"].strip()
        if not place:
            raise AnsibleActionFail("the node cannot create a temporary file; check mktemp and /tmp there")
        try:
            self._transfer_file(archive, place)
            load = f"{self._runtime} images import" if "ctr" in self._runtime else f"{self._runtime} load --input"
            self._run_script(f"{load} {shlex.quote(place)}")
        finally:
            self._low_level_execute_command(f"rm -f {shlex.quote(place)}", sudoable=False)

    def _pinned(self, name, digest):
        # Only containerd stores the digest of an imported image. Other runtimes use the tag, which identifies the
        # content.
        if "ctr" not in self._runtime:
            return name
        pinned = f"{self._given['repository']}@{digest}"
        if not self._task.check_mode:
            self._run_script(f"{self._runtime} images tag --force {shlex.quote(name)} {shlex.quote(pinned)}")
        return pinned

    def _remove(self, name):
        remove = "images rm" if "ctr" in self._runtime else "rmi --force"
        self._run_script(f"{self._runtime} {remove} {shlex.quote(name)}")

    def _run_script(self, script):
        answer = self._low_level_execute_command(f"/bin/sh -c {shlex.quote(script)}")
        if answer["rc"]:
            reason = " ".join((answer["stderr"] or answer["stdout"]).split())[-500:]
            raise AnsibleActionFail(f"`{' '.join(script.split())[:100]}` failed on the node: {reason}")
        return answer["stdout"]
