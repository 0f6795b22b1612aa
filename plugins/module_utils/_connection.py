# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: its interface may change at any time.

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

# The importing module reports a missing accelkit before it calls any of these names.
with suppress(ImportError):
    from accelkit.kube.options import ConnectionOptions

# The arguments of the modules of kubernetes.core. ConnectionOptions.collect() reads missing ones from the environment.
CONNECTION_ARGUMENTS: dict[str, dict[str, Any]] = {
    # The path is not a secret. If the value is a mapping, find_secrets() returns its secrets, and the modules mask
    # them.
    "kubeconfig": {"type": "raw", "no_log": False},
    "context": {"type": "str"},
    "host": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
    "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
    "client_cert": {"type": "path", "aliases": ["cert_file"]},
    "client_key": {"type": "path", "no_log": False, "aliases": ["key_file"]},
    "proxy": {"type": "str"},
    "no_proxy": {"type": "str"},
    "proxy_headers": {
        "type": "dict",
        "options": {
            "proxy_basic_auth": {"type": "str", "no_log": True},
            "basic_auth": {"type": "str", "no_log": True},
            "user_agent": {"type": "str"},
        },
    },
    "persist_config": {"type": "bool"},
    "impersonate_user": {"type": "str"},
    "impersonate_groups": {"type": "list", "elements": "str"},
}


def read_options(given: Mapping[str, Any]) -> ConnectionOptions:
    """Return the connection options from a module's arguments."""
    return ConnectionOptions.collect({name: given.get(name) for name in CONNECTION_ARGUMENTS})


def find_secrets(kubeconfig: object) -> Collection[str]:
    """Return the strings of a kubeconfig mapping that must not appear in a log."""
    users = kubeconfig.get("users") if isinstance(kubeconfig, Mapping) else None
    return {text for text in _texts(users) if text}


def _texts(value: object) -> Collection[str]:
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [text for child in children for text in _texts(child)]
