import ast
import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from sigstore.models import TransparencyLogEntry

from accelkit.kernelcache.signatures import sigstore_internals, trust

SOURCES = Path(sigstore_internals.__file__).parents[2]


def list_private_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        for module in modules:
            if module.startswith("sigstore.") and any(part.startswith("_") for part in module.split(".")):
                yield from (f"{module}.{each.name}" for each in node.names)


def test_only_one_module_uses_private_parts_of_sigstore():
    found = {path for path in SOURCES.rglob("*.py") if any(list_private_imports(path))}
    assert found == {Path(sigstore_internals.__file__)}


@pytest.mark.parametrize("name", sorted(list_private_imports(Path(sigstore_internals.__file__))))
def test_installed_sigstore_provides_each_private_name(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_sigstore_calls_the_method_that_the_verifier_replaces():
    verifier = sigstore_internals.InclusiveVerifier(trust.TrustRoot().root, ())
    calls = []
    verifier._verify_signed_timestamp = lambda response, message: calls.append((response, message))
    data = SimpleNamespace(rfc3161_timestamps=["response"])
    material = SimpleNamespace(timestamp_verification_data=data)
    verifier._verify_timestamp_authority(SimpleNamespace(verification_material=material, signature=b"signature"))
    assert calls == [("response", b"signature")]


def test_embedded_roots_of_both_instances_have_logs_and_authorities():
    for staging in (False, True):
        root = trust.TrustRoot(staging=staging).root
        assert sigstore_internals.list_logs(root)
        assert sigstore_internals.list_certificate_logs(root)
        assert sigstore_internals.list_certificate_authorities(root)


def test_sigstore_log_entry_provides_private_verify_method():
    assert callable(TransparencyLogEntry._verify)
