"""An example, which is defined by five options, and the names that are derived from these options.

The option values, names and predefined sets are the same as in GKM's examples. Therefore, each tool can find and remove
objects that were created by the other tool. Users may specify the long form of the scope. Names contain the short form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Final


class Access(StrEnum):
    """The access mode of the cache's claim: ReadOnlyMany for pods, or ReadWriteOnce for DaemonSets."""

    ROX = "rox"
    RWO = "rwo"


class Scope(StrEnum):
    """The scope of the cache: a GKMCache in one namespace, or a ClusterGKMCache for two namespaces."""

    NAMESPACE = "ns"
    CLUSTER = "cl"


class Gpu(StrEnum):
    """The platform for which the kernels in the cache were compiled."""

    CUDA = "cuda"
    ROCM = "rocm"


class CosignVersion(StrEnum):
    """The major version of cosign, which determines the signature format of the image."""

    V2 = "v2"
    V3 = "v3"


class Environment(StrEnum):
    """The environment in which the example runs, which determines additional fields of the objects."""

    NONE = "none"
    KIND = "kind"
    NFD = "nfd"


SCOPE_WORDS: Final[Mapping[str, Scope]] = MappingProxyType(
    {
        "namespace": Scope.NAMESPACE,
        "ns": Scope.NAMESPACE,
        "cluster": Scope.CLUSTER,
        "cl": Scope.CLUSTER,
    }
)


@dataclass(frozen=True)
class Example:
    """An example, which consists of a cache and three workloads that use the cache."""

    access: Access
    scope: Scope
    gpu: Gpu
    cosign: CosignVersion
    environment: Environment = Environment.NONE

    @property
    def suffix(self) -> str:
        """Return the suffix of object names, such as `rwo-ns-rocm-v2`. It does not contain the environment."""
        return f"{self.access}-{self.scope}-{self.gpu}-{self.cosign}"

    @property
    def file_name(self) -> str:
        """Return the name of the file, such as `rwo-ns-rocm-v2-kind.yaml`."""
        place = "" if self.environment is Environment.NONE else f"-{self.environment}"
        return f"{self.suffix}{place}.yaml"

    @property
    def cache_name(self) -> str:
        """Return the name of the cache and of its claim."""
        return f"gkm-test-obj-{self.suffix}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces: two namespaces for a ClusterGKMCache, or one namespace for a GKMCache."""
        count = 2 if self.scope is Scope.CLUSTER else 1
        return tuple(f"gkm-test-ns-{number}-{self.suffix}" for number in range(1, count + 1))


ALL_EXAMPLES: Final = tuple(Example(*options) for options in product(Access, Scope, Gpu, CosignVersion, Environment))

SETS: Final[Mapping[str, tuple[Example, ...]]] = MappingProxyType(
    {
        "kind": (
            Example(Access.RWO, Scope.NAMESPACE, Gpu.ROCM, CosignVersion.V2, Environment.KIND),
            Example(Access.RWO, Scope.CLUSTER, Gpu.ROCM, CosignVersion.V3, Environment.KIND),
            Example(Access.ROX, Scope.NAMESPACE, Gpu.ROCM, CosignVersion.V3, Environment.KIND),
            Example(Access.ROX, Scope.CLUSTER, Gpu.ROCM, CosignVersion.V2, Environment.KIND),
        ),
        **{
            f"nfd-{gpu}": (
                Example(Access.RWO, Scope.NAMESPACE, gpu, CosignVersion.V2, Environment.NFD),
                Example(Access.RWO, Scope.CLUSTER, gpu, CosignVersion.V3, Environment.NFD),
            )
            for gpu in Gpu
        },
    }
)
