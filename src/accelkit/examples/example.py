"""An example as a value: five options, and the names that are derived from them.

The option values, names and predefined sets are those of GKM's own examples, so that each tool can find and remove
what the other created. Users may write the scope in long form; names contain the short form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Final


class Access(StrEnum):
    """How the claim of the cache is mounted: by pods read-only on many nodes, or by DaemonSets on one node each."""

    ROX = "rox"
    RWO = "rwo"


class Scope(StrEnum):
    """Whether the cache is a GKMCache of one namespace or a ClusterGKMCache for two."""

    NAMESPACE = "ns"
    CLUSTER = "cl"


class Gpu(StrEnum):
    """The platform for which the kernels were compiled."""

    CUDA = "cuda"
    ROCM = "rocm"


class CosignVersion(StrEnum):
    """The major version of cosign whose signature format the image has."""

    V2 = "v2"
    V3 = "v3"


class Environment(StrEnum):
    """The environment in which the example runs; the objects get the fields that it needs."""

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
    """One example: a cache and three workloads that use it."""

    access: Access
    scope: Scope
    gpu: Gpu
    cosign: CosignVersion
    environment: Environment = Environment.NONE

    @property
    def suffix(self) -> str:
        """Return the suffix of the names of its objects, such as `rwo-ns-rocm-v2`, which omits the environment."""
        return f"{self.access}-{self.scope}-{self.gpu}-{self.cosign}"

    @property
    def file_name(self) -> str:
        """Return the name of its file, such as `rwo-ns-rocm-v2-kind.yaml`."""
        place = "" if self.environment is Environment.NONE else f"-{self.environment}"
        return f"{self.suffix}{place}.yaml"

    @property
    def cache_name(self) -> str:
        """Return the name of its cache, which is also the name of its claim."""
        return f"gkm-test-obj-{self.suffix}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return its namespaces: two for a ClusterGKMCache, otherwise one."""
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
