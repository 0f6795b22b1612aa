# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: its interface may change at any time.

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.accelkit.kubernetes.plugins.module_utils._connection import (
    CONNECTION_ARGUMENTS,
    find_secrets,
    read_options,
)
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import require_accelkit

IMPORT_TRACE = None
Result = TypeVar("Result")
try:
    from accelkit.errors import AccelkitError, WaitError
    from accelkit.kube.client import ApiClient
    from accelkit.kube.connection import load_connection
except ImportError:
    IMPORT_TRACE = traceback.format_exc()

API_ARGUMENTS = {
    **CONNECTION_ARGUMENTS,
    "request_timeout": {"type": "int", "default": 30},
}


def api_module(*, constraints: dict[str, Any] | None = None, **arguments: Any) -> AnsibleModule:
    """Return a module that calls the API server; exit with an error if accelkit is missing or has a different version.

    `constraints` contains constraints between arguments that are passed to AnsibleModule, such as `required_if`.
    """
    module = AnsibleModule({**API_ARGUMENTS, **arguments}, supports_check_mode=True, **(constraints or {}))
    require_accelkit(module, IMPORT_TRACE)
    module.no_log_values.update(find_secrets(module.params["kubeconfig"]))
    return module


def call(module: AnsibleModule, function: Callable[[ApiClient], Awaitable[Result]]) -> Result:
    """Run a coroutine function with an open client; if accelkit raises an error, exit with its message."""
    try:
        return asyncio.run(_with_client(module, function))
    except WaitError as exc:
        # The action plugin calls the module again, or reports the total time.
        module.fail_json(msg=str(exc), waiting_for=exc.waiting, sentence=exc.sentence)
        raise  # never reached: fail_json ends the process
    except AccelkitError as exc:
        module.fail_json(msg=str(exc))
        raise  # never reached: fail_json ends the process


async def _with_client(module: AnsibleModule, function: Callable[[ApiClient], Awaitable[Result]]) -> Result:
    async with ApiClient(
        load_connection(read_options(module.params)), timeout_seconds=module.params["request_timeout"]
    ) as api:
        return await function(api)
