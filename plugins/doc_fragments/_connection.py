# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations


class ModuleDocFragment:
    # How the API server is reached; the options are those of kubernetes.core's modules.
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of the kubeconfig, several with C(:) between them, or the content of one as a mapping.
      - >-
        Each of these options can come from the environment, as E(K8S_AUTH_KUBECONFIG), with the names that
        kubernetes.core reads.
      - Without a kubeconfig, a context, or a host with credentials, the pod's service account is used, else
        E(KUBECONFIG), else C(~/.kube/config).
    type: raw
  context:
    description:
      - Context of the kubeconfig; the default is its current one.
    type: str
  host:
    description:
      - URL of the API server.
    type: str
  api_key:
    description:
      - Bearer token.
    type: str
  username:
    description:
      - User of HTTP's basic authentication.
    type: str
  password:
    description:
      - Password of HTTP's basic authentication.
    type: str
  validate_certs:
    description:
      - Whether the API server's certificate is verified.
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description:
      - Path of the authority of the API server's certificate.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - Path of a client certificate.
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of the client certificate's key.
    type: path
    aliases: [key_file]
  proxy:
    description:
      - URL of an HTTP proxy.
    type: str
  no_proxy:
    description:
      - Hosts, domains and networks that are reached without the proxy, with commas between them.
    type: str
  proxy_headers:
    description:
      - Headers for the proxy.
    type: dict
    suboptions:
      proxy_basic_auth:
        description:
          - User and password of the proxy, with a colon between them.
        type: str
      basic_auth:
        description:
          - User and password of HTTP's basic authentication, with a colon between them.
        type: str
      user_agent:
        description:
          - Name of the client.
        type: str
  persist_config:
    description:
      - Whether renewed tokens are written back to the kubeconfig.
    type: bool
  impersonate_user:
    description:
      - User on whose behalf requests are made.
    type: str
  impersonate_groups:
    description:
      - Groups of the user on whose behalf requests are made.
    type: list
    elements: str
"""
