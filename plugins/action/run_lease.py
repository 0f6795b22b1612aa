# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import asyncio
import getpass
import json
import os
import select
import socket
import subprocess
import sys

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.accelkit.kubernetes.plugins.module_utils._connection import CONNECTION_ARGUMENTS, read_options
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    import msgspec

    from accelkit.errors import AccelkitError
    from accelkit.install.run_lease import RunLease, read_run_lease
    from accelkit.kube.client import ApiClient
    from accelkit.kube.connection import load_connection
    from accelkit.kube.lease import RUN_LEASE_SECONDS
except ImportError as exc:
    IMPORT_ERROR = exc

# Time that is added to the duration of a Lease, for the start of Python and the responses from the API server.
START_SECONDS = 30


class ActionModule(ActionBase):
    """Action that starts a process that holds the Lease until this Ansible run ends."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if problem := find_problem(IMPORT_ERROR):
            raise AnsibleActionFail(problem)
        _result, given = self.validate_argument_spec(argument_spec=CONNECTION_ARGUMENTS)
        # The parent process is the run of Ansible, because it runs each task in a child process.
        process = os.getppid()
        identity = f"{getpass.getuser()}@{socket.gethostname()}, process {process}"
        found = self._read(given, identity) if self._task.check_mode else hold(given, identity, process)
        answer = {"changed": False, "holder": found.holder, "since": found.since}
        if found.error:
            raise AnsibleActionFail(found.error, result=answer)
        if found.held or not found.holder:
            return answer
        sentence = f"{found.holder} has been changing this cluster since {found.since}"
        if self._task.check_mode:
            return {**answer, "warnings": [sentence]}
        raise AnsibleActionFail(f"{sentence}; wait until that run has ended", result=answer)

    def _read(self, given, identity):
        async def read():
            async with ApiClient(load_connection(read_options(given))) as api:
                return await read_run_lease(api, identity)

        try:
            return asyncio.run(read())
        except AccelkitError as exc:
            return RunLease(error=str(exc))


def hold(given, identity, process):
    """Start the process that holds the Lease; return its first report."""
    command = [sys.executable, "-m", "accelkit.install.run_lease", identity, str(process)]
    # Use a separate session, so that a signal to the terminal's foreground process group does not stop the process
    # before the run ends.
    keeper = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    # Write the credentials to the standard input, so that they do not appear in the list of processes.
    keeper.stdin.write(json.dumps(given).encode())
    keeper.stdin.close()
    ready = select.select([keeper.stdout], [], [], RUN_LEASE_SECONDS + START_SECONDS)[0]
    line = keeper.stdout.readline() if ready else b""
    keeper.stdout.close()
    if not line:
        keeper.kill()
        return RunLease(error="cannot acquire the Lease accelkit-run in time")
    return msgspec.json.decode(line, type=RunLease)
