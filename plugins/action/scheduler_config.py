# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import json
import shlex

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.accelkit.kubernetes.plugins.module_utils._connection import CONNECTION_ARGUMENTS, read_options
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem
from ansible_collections.accelkit.kubernetes.plugins.plugin_utils._waiting import Progress

IMPORT_ERROR = None
try:
    from accelkit.errors import AccelkitError
    from accelkit.kube.connection import load_connection
    from accelkit.scheduler.actions import perform
    from accelkit.scheduler.arguments import build_argument_spec, decode_module_arguments
    from accelkit.scheduler.host.shell import ShellHost
    from accelkit.scheduler.node_pod.run import compare_without_pod, run_in_pod
except ImportError as exc:
    IMPORT_ERROR = exc

# The actions by state and check mode.
ACTIONS = {
    ("present", False): "apply",
    ("present", True): "compare",
    ("verified", False): "check",
    ("verified", True): "check",
    ("absent", False): "remove",
    ("absent", True): "compare-removal",
}


class ActionModule(ActionBase):
    """Action that runs on the controller and edits files on the host; the host only runs small shell scripts."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if problem := find_problem(IMPORT_ERROR):
            raise AnsibleActionFail(problem)
        _result, arguments = self.validate_argument_spec(
            argument_spec={**CONNECTION_ARGUMENTS, **build_argument_spec()},
            required_if=[
                ("state", "present", ["extender", "kubernetes_version"]),
                ("state", "verified", ["extender", "kubernetes_version"]),
            ],
        )
        # A round trip through JSON removes the tags from Ansible's strings, which other serializers do not support.
        given = json.loads(json.dumps(arguments))
        try:
            options = read_options(given)
            own = {name: value for name, value in given.items() if name not in CONNECTION_ARGUMENTS}
            reach, spec = decode_module_arguments(own)
            host = (task_vars or {}).get("inventory_hostname", "")
            with Progress(host, "kube-scheduler to run with its configuration", given["timeout"]):
                result = self._do(reach, spec, options)
        except AccelkitError as exc:
            # Ansible would also print the messages of all causes.
            raise AnsibleActionFail(str(exc)) from None
        if reach.state == "verified" and result["changed"]:
            paths = ", ".join(change["after_header"] for change in result["diff"])
            raise AnsibleActionFail(
                f"kube-scheduler's configuration differs: {paths}; run site.yml", result={**result, "changed": False}
            )
        problems = result.pop("problems")
        return {**result, "warnings": problems} if problems else result

    def _do(self, reach, spec, options):
        check = bool(self._task.check_mode)
        action = ACTIONS[reach.state, check]
        connection = load_connection(options) if spec.node or reach.pod else None
        if reach.pod and check:
            return compare_without_pod(connection, spec, desired=reach.state != "absent")
        if reach.pod:
            return run_in_pod(connection, action, spec, reach.pod)
        return perform(action, spec, ShellHost(self._shell), connection)

    def _shell(self, script, content):
        # Also runs in check mode, because the script then only reads. The script is a single word, because Ansible
        # appends text to the command.
        answer = self._low_level_execute_command(f"/bin/sh -c {shlex.quote(script)}", in_data=content or None)
        return answer["rc"], answer["stdout"], answer["stderr"]
