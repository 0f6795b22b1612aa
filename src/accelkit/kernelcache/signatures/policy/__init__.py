r"""Signer policies: who may sign which images, for which namespaces. Nothing is trusted without one.

A file holds one or more YAML documents:

    apiVersion: accelkit.io/v1alpha1
    kind: SignerPolicy
    metadata: {name: acme}
    spec:
      images: ["quay.io/acme/**"]
      namespaces: ["*"]                 # without it: all
      verdictTtlSeconds: 86400          # how long a verdict is believed; without it: a day
      signers:                          # one of them is enough
        - name: ci
          keyless: {issuer: https://token.actions.githubusercontent.com, subjectPattern: 'https://github\\.com/acme/.*'}
        - name: release
          key: {file: release.pub}      # or data: the PEM text
          transparencyLog: notRequired  # without it: required
        - name: corporate
          ca: {file: ca.pem, subject: build@acme.example}

An object of a cluster has the same `spec`, but for files. Where several policies cover an image, each of them must be
satisfied: a new policy can only ask for more.
"""

from accelkit.kernelcache.signatures.policy.file import load_policies
from accelkit.kernelcache.signatures.policy.policies import Signer, SignerPolicies, SignerPolicy

__all__ = ["Signer", "SignerPolicies", "SignerPolicy", "load_policies"]
