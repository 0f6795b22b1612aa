#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_login
short_description: Log in to OpenShift with a user name and password
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Requests a token from OpenShift's OAuth server with a user's name and password, in the same way as C(oc login).
  - The token is a secret, so use C(no_log). The token expires automatically.
requirements:
  - openshift >= 0.13
extends_documentation_fragment:
  - accelkit.kubernetes._attributes
attributes:
  check_mode:
    support: full
    details: The module also logs in when it runs in check mode. It does not change the cluster.
  diff_mode:
    support: none
    details: The module does not change the cluster.
options:
  host:
    description: URL of the API server.
    type: str
    required: true
  username:
    description: Name of the user.
    type: str
    required: true
  password:
    description: Password of the user.
    type: str
    required: true
  validate_certs:
    description: Whether to verify the certificates of the API server and the OAuth server.
    type: bool
    default: true
  ca_cert:
    description: >-
      Path of a PEM file with the certificate authorities of the API server and the OAuth server. By default, the
      authorities of the operating system are trusted.
    type: path
  timeout:
    description: Timeout for the login, in seconds.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: Log in
  accelkit.kubernetes.openshift_login:
    host: https://api.cluster.example.org:6443
    username: admin
    password: "{{ vaulted_password }}"
  no_log: true
  register: login

- name: Use the token in the following tasks
  ansible.builtin.set_fact:
    accelkit_connection:
      host: https://api.cluster.example.org:6443
      api_key: "{{ login.api_key }}"
  no_log: true
"""

RETURN = r"""
api_key:
  description: The token. It is a secret, so use C(no_log).
  returned: success
  type: str
expires_in:
  description: Validity period of the token, in seconds.
  returned: success
  type: int
  sample: 86400
"""

import signal
import traceback

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

IMPORT_TRACE = None
try:
    import requests
    from openshift.helper.userpassauth import OCPLoginConfiguration, OCPLoginException
except ImportError:
    IMPORT_TRACE = traceback.format_exc()


class LateError(Exception):
    """Error that is raised when the timeout expires."""


def end(_number, _frame):
    raise LateError


def log_in(parameters):
    """Return the response that contains the token.

    The library does not support a timeout, so an alarm signal interrupts the call.
    """
    # The base class is the configuration class of the Python package kubernetes, and newer versions reject its
    # arguments. The login does not use the base class.
    steps = {name: getattr(OCPLoginConfiguration, name) for name in ("get_token", "discover", "login")}
    login = type("Login", (), steps)()
    login.host = parameters["host"].rstrip("/")
    login.ocp_username, login.ocp_password = parameters["username"], parameters["password"]
    login.verify_ssl = parameters["validate_certs"]
    login.ssl_ca_cert = parameters["ca_cert"]
    former = signal.signal(signal.SIGALRM, end)
    signal.alarm(parameters["timeout"])
    try:
        login.get_token()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
    return login.token


def main():
    module = AnsibleModule(
        {
            "host": {"type": "str", "required": True},
            "username": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
            "validate_certs": {"type": "bool", "default": True},
            "ca_cert": {"type": "path"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    if IMPORT_TRACE:
        module.fail_json(msg=missing_required_lib("openshift"), exception=IMPORT_TRACE)
    try:
        token = log_in(module.params)
    except LateError:
        module.fail_json(msg=f"the log-in took longer than {module.params['timeout']} s; check that the host answers")
    except (OCPLoginException, requests.RequestException) as exc:
        module.fail_json(msg=f"the log-in failed: {exc}; check host, username, password and ca_cert")
    else:
        module.exit_json(changed=False, api_key=token["access_token"], expires_in=int(token["expires_in"]))


if __name__ == "__main__":
    main()
