"""A client of image registries: manifests, blobs and referrers, read and written.

It is our own because the libraries there are (oras, python-dxf) are synchronous, and ask no mirrors.

What a registry sends is hashed while it streams and is never more than was announced; credentials reach nobody but
the registry they are for.
"""

from accelkit.kernelcache.registry.client import RawManifest, RegistryClient
from accelkit.kernelcache.registry.credentials import Login, RegistryCredentials
from accelkit.kernelcache.registry.settings import RegistrySettings

__all__ = ["Login", "RawManifest", "RegistryClient", "RegistryCredentials", "RegistrySettings"]
