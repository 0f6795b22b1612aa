"""Signer policies from a file, with keys and certificates from the files that it refers to."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.decoding import prepare
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.signer_policy.content import PolicyContent
from accelkit.kernelcache.signatures.signer_policy.policies import SignerPolicies, SignerPolicy
from accelkit.kernelcache.signatures.signer_policy.spec import MAX_POLICY_BYTES, NEXT_STEP, PolicySpec, build_policy
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
    """Return the policies in a file with their trusted root, without network requests.

    Args:
        path: the YAML file.
        trusted_root: the JSON file of a Sigstore trusted root; None for the trusted root of the public instance that
            the installed release of sigstore contains.

    Raises:
        ConfigurationError: the file cannot be read, or a policy in it is invalid.
    """
    try:
        content = path.read_bytes()
        if len(content) > MAX_POLICY_BYTES:
            raise ConfigurationError(f"{path} is larger than the limit of {MAX_POLICY_BYTES} bytes")
        documents = [each for each in load_yaml_documents(content.decode()) if each is not None]
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        cause = " ".join(str(exc).split())
        raise ConfigurationError(f"cannot read the signer policy {path}: {cause}", next_step=NEXT_STEP) from exc
    if not documents:
        raise ConfigurationError(f"{path} contains no signer policy", next_step=NEXT_STEP)
    contents = PolicyContent()
    contents.add(content)
    policies = tuple(_read_document(document, path, contents) for document in documents)
    if len({each.name for each in policies}) < len(policies):
        raise ConfigurationError(f"{path} contains two policies with the same name", next_step="rename one of them")
    trust = TrustRoot(trusted_root)
    contents.add_root(trust, trusted_root)
    return SignerPolicies(policies, trust, contents.digest)


def _read_document(document: object, path: Path, contents: PolicyContent) -> SignerPolicy:
    try:
        policy = msgspec.convert(document, _Document)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(f"a signer policy in {path} is invalid: {exc}", next_step=NEXT_STEP) from exc

    def read_file(name: str, where: str) -> bytes:
        try:
            pem = (path.parent / name).read_bytes()
        except OSError as exc:
            raise ConfigurationError(f"{where}: cannot read {name}: {exc.strerror}") from exc
        contents.add(pem)
        return pem

    return build_policy(policy.metadata.name, policy.spec, read_file)
