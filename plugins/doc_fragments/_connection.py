# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations


class ModuleDocFragment:
    # Options for the connection to the API server. They are the same as in the modules of kubernetes.core.
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of the kubeconfig, several paths separated by C(:), or the content of a kubeconfig as a mapping.
      - You can also set each of these options with an environment variable, for example E(K8S_AUTH_KUBECONFIG). The
        names of the variables are the same as in kubernetes.core.
      - If you do not set a kubeconfig, a context, or a host with credentials, the service account of the pod is used.
        Outside of a pod, E(KUBECONFIG) is used, otherwise C(~/.kube/config).
    type: raw
  context:
    description:
      - Context in the kubeconfig. The default is the current context.
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
      - User for HTTP basic authentication.
    type: str
  password:
    description:
      - Password for HTTP basic authentication.
    type: str
  validate_certs:
    description:
      - Whether to verify the certificate of the API server.
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description:
      - Path of the CA certificate that signed the certificate of the API server.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - Path of a client certificate.
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of the client certificate's private key.
    type: path
    aliases: [key_file]
  proxy:
    description:
      - URL of an HTTP proxy.
    type: str
  no_proxy:
    description:
      - Hosts, domains and networks that are accessed without the proxy, separated by commas.
    type: str
  proxy_headers:
    description:
      - Headers for the proxy.
    type: dict
    suboptions:
      proxy_basic_auth:
        description:
          - User and password of the proxy, separated by a colon.
        type: str
      basic_auth:
        description:
          - User and password for HTTP basic authentication, separated by a colon.
        type: str
      user_agent:
        description:
          - Name of the client.
        type: str
  persist_config:
    description:
      - Whether to write renewed tokens back to the kubeconfig.
    type: bool
  impersonate_user:
    description:
      - User to impersonate in requests.
    type: str
  impersonate_groups:
    description:
      - Groups of the impersonated user.
    type: list
    elements: str
"""
