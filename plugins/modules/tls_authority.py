#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: tls_authority
short_description: Issue the certificates for the extender, kube-scheduler and the webhook
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Creates a certificate authority, and issues the certificates for the extender and kube-scheduler. Stores the
    certificates in the Secrets C(accelkit-ca), C(accelkit-extender-tls) and C(accelkit-scheduler-client) in a
    namespace.
  - With O(webhook_names), the module also issues the certificate for the kernel cache webhook, and stores it in the
    Secret C(accelkit-cache-webhook-tls).
  - The module issues missing certificates. It renews certificates that expire within O(renew_days), or that contain
    different names than the configured names.
  - The diff contains only digests and dates, not keys.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  namespace:
    description: Namespace of the Secrets. It must exist.
    type: str
    required: true
  names:
    description: Host names and addresses that clients use to access the extender.
    type: list
    elements: str
    required: true
  renew_days:
    description: Number of days before expiry at which a certificate is renewed.
    type: int
    default: 30
  rotate_ca:
    description:
      - Whether to create a new certificate authority. The new and the previous authority are trusted until the next
        rotation.
      - kube-scheduler reads authorities only at startup, so the next run of the role C(scheduler) restarts
        kube-scheduler.
    type: bool
    default: false
  webhook_names:
    description:
      - Host names that clients use to access the kernel cache webhook. If the list is empty, no certificate is issued
        for the webhook.
      - accelkit's authority issues this certificate, even if O(given) is set.
    type: list
    elements: str
    default: []
  given:
    description:
      - Certificates from another authority that replace the certificates from accelkit. The module checks the
        authority, names, purpose and dates of the certificates.
      - If C(server) is not set, another program, for example cert-manager, must also manage the Secret
        C(accelkit-extender-tls).
    type: dict
    suboptions:
      ca:
        description: Certificates of the authorities, in PEM format.
        type: str
        required: true
      server:
        description: The extender's certificate, in PEM format.
        type: str
      server_key:
        description: The extender's private key, in PEM format.
        type: str
      certificate:
        description: kube-scheduler's client certificate, in PEM format.
        type: str
        required: true
      key:
        description: kube-scheduler's private key, in PEM format.
        type: str
        required: true
  labels:
    description: Labels of the Secrets.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Issue or renew the certificates
  accelkit.kubernetes.tls_authority:
    kubeconfig: ~/.kube/config
    namespace: accelkit
    names: [accelkit-extender.accelkit.svc]
  no_log: true
  register: certificates
"""

RETURN = r"""
credentials:
  description: >-
    Credentials for kube-scheduler, as C(ca), C(certificate) and C(key). The key is a secret, so use C(no_log).
  returned: success
  type: dict
ending:
  description: >-
    Certificates that expire within O(renew_days) and were not renewed, with one sentence for each certificate. In check
    mode, the list can contain any certificate. Otherwise, it contains only certificates from another authority.
  returned: success
  type: list
  elements: str
  sample: ["accelkit-extender-tls is valid until 2027-11-21T06:00:00Z"]
not_after:
  description: Expiry date of each certificate, by Secret name.
  returned: success
  type: dict
  sample: {accelkit-extender-tls: "2027-11-21T06:00:00Z"}
"""

import hashlib
from contextlib import suppress
from datetime import timedelta

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.certificates.issuing import KeyPair
    from accelkit.install.certificates.secrets import (
        AUTHORITY,
        CLIENT,
        SERVER,
        WEBHOOK,
        CertificateSpec,
        check_given,
        format_not_after,
        list_endings,
        read_secrets,
        renew_secrets,
        write_secrets,
    )

GIVEN = {
    "ca": {"type": "str", "required": True},
    "server": {"type": "str"},
    "server_key": {"type": "str", "no_log": True},
    "certificate": {"type": "str", "required": True},
    "key": {"type": "str", "required": True, "no_log": True},
}


def redact(data):
    return {
        name: {
            "not_after": format_not_after(content["tls.crt"]),
            "sha256": {
                key: hashlib.sha256(content[key]).hexdigest() for key in ("tls.crt", "ca.crt") if key in content
            },
        }
        for name, content in data.items()
        if content.get("tls.crt")
    }


async def keep(api, module):
    parameters = module.params
    spec = CertificateSpec(
        tuple(parameters["names"]),
        timedelta(days=parameters["renew_days"]),
        rotate_ca=parameters["rotate_ca"],
        webhook_names=tuple(parameters["webhook_names"]),
    )
    stored = await read_secrets(api, parameters["namespace"])
    if parameters["given"]:
        texts = {key: (text or "").encode() for key, text in parameters["given"].items()}
        server = KeyPair(texts["server"], texts["server_key"]) if texts["server"] else None
        foreign = stored.get(SERVER, {})
        checked = server or KeyPair(foreign.get("tls.crt", b""), foreign.get("tls.key", b""))
        data = check_given(texts["ca"], checked, KeyPair(texts["certificate"], texts["key"]), spec)
        used = dict(data)
        if server is None:
            del data[SERVER]
        if spec.webhook_names:
            own = renew_secrets(stored, spec)
            data |= {name: own[name] for name in (AUTHORITY, WEBHOOK)}
    else:
        data = renew_secrets(stored, spec)
        used = {name: stored[name] for name in data if name in stored} if module.check_mode else data
    changed = {name: content for name, content in data.items() if stored.get(name) != content}
    if changed and not module.check_mode:
        await write_secrets(api, parameters["namespace"], changed, parameters["labels"])
    return stored, data, bool(changed), list_endings(used, spec)


def main():
    module = api_module(
        namespace={"type": "str", "required": True},
        names={"type": "list", "elements": "str", "required": True},
        renew_days={"type": "int", "default": 30},
        rotate_ca={"type": "bool", "default": False},
        webhook_names={"type": "list", "elements": "str", "default": []},
        given={"type": "dict", "options": GIVEN, "required_together": [("server", "server_key")]},
        labels={"type": "dict", "default": {}},
    )
    stored, data, changed, ending = call(module, lambda api: keep(api, module))
    after = redact(data)
    before = {name: each for name, each in redact(stored).items() if name in after}
    client = data[CLIENT]
    # Ansible masks the values of secret options in results, but the caller needs this key.
    module.no_log_values.discard(client["tls.key"].decode())
    module.exit_json(
        changed=changed,
        diff={"before": before, "after": after},
        ending=ending,
        not_after={name: each["not_after"] for name, each in after.items()},
        credentials={
            "ca": client["ca.crt"].decode(),
            "certificate": client["tls.crt"].decode(),
            "key": client["tls.key"].decode(),
        },
    )


if __name__ == "__main__":
    main()
