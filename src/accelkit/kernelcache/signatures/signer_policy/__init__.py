r"""Signer policies, which specify trusted signers for images and namespaces. Without a policy, no image is accepted.

A file contains one or more YAML documents:

    apiVersion: accelkit.io/v1alpha1
    kind: SignerPolicy
    metadata: {name: acme}
    spec:
      images: ["quay.io/acme/**"]
      namespaces: ["*"]                 # default: all
      verdictTtlSeconds: 86400          # validity of a verdict; default: one day
      signers:                          # one of them is sufficient
        - name: ci
          keyless: {issuer: https://token.actions.githubusercontent.com, subjectPattern: 'https://github\\.com/acme/.*'}
        - name: release
          key: {file: release.pub}      # or data: the PEM text
          transparencyLog: notRequired  # default: required
        - name: corporate
          ca: {file: ca.pem, subject: build@acme.example}

A SignerPolicy object in a cluster has the same `spec`, without files. If several policies cover an image, all of these
policies must be satisfied, so an additional policy can only add requirements.
"""

from accelkit.kernelcache.signatures.signer_policy.file import load_policies
from accelkit.kernelcache.signatures.signer_policy.policies import Signer, SignerPolicies, SignerPolicy

__all__ = ["Signer", "SignerPolicies", "SignerPolicy", "load_policies"]
