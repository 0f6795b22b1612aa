"""A client for image registries that reads and writes manifests, blobs and referrers.

accelkit does not use existing libraries (oras, python-dxf), because they are synchronous and do not support mirrors.

The client computes the hash of the data that it receives from a registry, and rejects more data than the announced
size. It sends credentials only to the registry to which they belong.
"""

from accelkit.kernelcache.registry.client import RawManifest, RegistryClient
from accelkit.kernelcache.registry.credentials import Login, RegistryCredentials
from accelkit.kernelcache.registry.settings import RegistrySettings

__all__ = ["Login", "RawManifest", "RegistryClient", "RegistryCredentials", "RegistrySettings"]
