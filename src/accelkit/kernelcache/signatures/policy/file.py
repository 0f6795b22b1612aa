"""Policies from a file, and from the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.decoding import prepare
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.policy.content import PolicyContent
from accelkit.kernelcache.signatures.policy.policies import SignerPolicies, SignerPolicy
from accelkit.kernelcache.signatures.policy.spec import MAX_POLICY_BYTES, NEXT_STEP, PolicySpec, build_policy
from accelkit.kernelcache.signatures.trust import TrustRoot
from accelkit.yaml import load_yaml_documents


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: Literal["accelkit.io/v1alpha1"]
    kind: Literal["SignerPolicy"]
    metadata: _Metadata
    spec: PolicySpec


prepare(_Document)


def load_policies(path: Path, trusted_root: Path | None = None) -> SignerPolicies:
    """Read a file of policies, and the trusted root they rest on.

    Args:
        path: YAML.
        trusted_root: JSON of Sigstore's trusted root; without it, that of the public instance as the installed
            release of sigstore knows it. Nothing is fetched.

    Raises:
        ConfigurationError: the file cannot be read, or a policy in it is wrong.
    """
    try:
        content = path.read_bytes()
        if len(content) > MAX_POLICY_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_POLICY_BYTES} bytes, too large for a policy")
        documents = [each for each in load_yaml_documents(content.decode()) if each is not None]
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        why = " ".join(str(exc).split())
        raise ConfigurationError(f"the signer policy {path} cannot be read: {why}", next_step=NEXT_STEP) from exc
    if not documents:
        raise ConfigurationError(f"{path} holds no signer policy", next_step=NEXT_STEP)
    seen = PolicyContent()
    seen.add(content)
    policies = tuple(_read_document(document, path, seen) for document in documents)
    if len({each.name for each in policies}) < len(policies):
        raise ConfigurationError(f"{path} has two policies of the same name", next_step="give each a name of its own")
    trust = TrustRoot(trusted_root)
    seen.add_root(trust, trusted_root)
    return SignerPolicies(policies, trust, seen.digest)


def _read_document(document: object, path: Path, seen: PolicyContent) -> SignerPolicy:
    try:
        read = msgspec.convert(document, _Document)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(f"a signer policy in {path} is wrong: {exc}", next_step=NEXT_STEP) from exc

    def read_file(name: str, where: str) -> bytes:
        try:
            pem = (path.parent / name).read_bytes()
        except OSError as exc:
            raise ConfigurationError(f"{where}: {name} cannot be read: {exc.strerror}") from exc
        seen.add(pem)
        return pem

    return build_policy(read.metadata.name, read.spec, read_file)
