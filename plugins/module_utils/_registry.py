# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: its interface may change at any time.

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.accelkit.kubernetes.plugins.module_utils._connection import (
    CONNECTION_ARGUMENTS,
    find_secrets,
    read_options,
)
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import require_accelkit

IMPORT_TRACE = None
try:
    import msgspec

    from accelkit.errors import AccelkitError, RegistryError
    from accelkit.kernelcache.compatibility.arguments import parse_workload, resolve_cards
    from accelkit.kernelcache.registry import Login, RegistryCredentials, RegistrySettings
    from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError, load_policies
    from accelkit.kernelcache.views import describe_refusal
except ImportError:
    IMPORT_TRACE = traceback.format_exc()

REGISTRY_ARGUMENTS = {
    "registry_plain_http": {"type": "list", "elements": "str", "default": []},
    "registry_ca": {"type": "path"},
    "registry_mirrors": {"type": "dict", "default": {}},
    "registry_logins": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "registry": {"type": "str", "required": True},
            "username": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
    },
    "registry_config": {"type": "list", "elements": "path", "default": []},
}
POLICY_ARGUMENTS = {
    "policy": {"type": "path"},
    "trusted_root": {"type": "path"},
    "namespace": {"type": "str", "default": ""},
}
CARD_ARGUMENTS = {
    "cards": {"type": "list", "elements": "str", "default": []},
    "node": {"type": "str"},
    **CONNECTION_ARGUMENTS,
    "driver_version": {"type": "str"},
    "driver_cuda_version": {"type": "str"},
}
WORKLOAD_ARGUMENTS = {
    "triton_version": {"type": "str"},
    "torch_cuda_version": {"type": "str"},
    "vllm_cache_hash": {"type": "str"},
}


def cache_module(*, constraints: dict[str, Any] | None = None, **arguments: Any) -> AnsibleModule:
    """Return a module that calls registries; exit with an error if accelkit is missing or has a different version.

    `constraints` contains constraints between arguments that are passed to AnsibleModule, such as `required_if`.
    """
    module = AnsibleModule({**REGISTRY_ARGUMENTS, **arguments}, supports_check_mode=True, **(constraints or {}))
    require_accelkit(module, IMPORT_TRACE)
    module.no_log_values.update(find_secrets(module.params.get("kubeconfig")))
    return module


def finish(module: AnsibleModule, work: Callable[[AnsibleModule], Coroutine[Any, Any, dict[str, Any]]]) -> None:
    """Exit the module with the result of a coroutine function, or with the message of the error that it raises.

    After an error, the result contains `retryable`, which indicates whether a retry can succeed. If the image is
    rejected, the result also contains the reasons why no signature is accepted.
    """
    try:
        result = asyncio.run(work(module))
    except UnverifiedError as exc:
        view = to_builtins(describe_refusal(module.params["image"], exc))
        module.fail_json(msg=view.pop("message"), **view)
    except AccelkitError as exc:
        module.fail_json(msg=str(exc), retryable=isinstance(exc, RegistryError) and exc.retryable)
    except OSError as exc:
        module.fail_json(msg=str(exc), retryable=False)
    module.exit_json(**result)


def read_settings(module: AnsibleModule) -> RegistrySettings:
    """Return the settings for a registry client from the module's arguments."""
    given = module.params
    hosts = {name: [each] if isinstance(each, str) else each for name, each in given["registry_mirrors"].items()}
    configs = [Path(each) for each in given["registry_config"]]
    settings = RegistrySettings.of_options(
        plain_http=given["registry_plain_http"],
        ca_file=to_path(given["registry_ca"]),
        mirrors=[f"{registry}={host}" for registry, each in hosts.items() for host in each],
        configs=configs,
    )
    if not given["registry_logins"]:
        return settings
    logins = {each["registry"]: Login(each["username"], each["password"]) for each in given["registry_logins"]}
    return replace(settings, credentials=RegistryCredentials.from_files(configs, logins))


def without_mirrors(settings: RegistrySettings) -> RegistrySettings:
    """Return the settings without mirrors, for modules that must read an image from the registry that they change."""
    return replace(settings, mirrors={})


def read_policies(module: AnsibleModule) -> SignerPolicies | None:
    """Return the signer policies from the module's arguments; None if they are not set."""
    given = module.params
    return load_policies(Path(given["policy"]), to_path(given["trusted_root"])) if given["policy"] else None


async def read_cards(module: AnsibleModule) -> Any:
    """Return the cards from the arguments of the module; None if they are not set."""
    given = module.params
    driver = {name: given[name] for name in ("driver_version", "driver_cuda_version")}
    return await resolve_cards(given["cards"], given["node"], read_options(given), **driver)


def read_workload(module: AnsibleModule, node: Any) -> Any:
    """Return the workload that uses the cache, as specified in the module's arguments."""
    return parse_workload(node, **{name: module.params[name] for name in WORKLOAD_ARGUMENTS})


def to_path(text: str | None) -> Path | None:
    return Path(text) if text else None


def to_builtins(view: object) -> Any:
    """Return a view as plain data, in the format in which Ansible returns it."""
    return msgspec.to_builtins(view)
