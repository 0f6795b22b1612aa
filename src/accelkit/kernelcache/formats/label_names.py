"""Names of the labels in a cache image's configuration.

MCV and KServe define `cache.<format>.image/…` and `io.kserve.km/…`. accelkit adds `accelkit.io/cache-…` for facts that
determine whether a workload hits the cache, but are missing in the other labels.
"""

from __future__ import annotations

from typing import Final

TITLE: Final = "org.opencontainers.image.title"

FRAMEWORK: Final = "io.kserve.km/framework"
CACHE_TYPE: Final = "io.kserve.km/cache-type"
CACHE_HASH: Final = "io.kserve.km/cache-hash"
MOUNT_SUBPATH: Final = "io.kserve.km/cache-mount-subpath"
ROOT_ENV: Final = "io.kserve.km/cache-root-env"
MOUNTS: Final = "io.kserve.km/cache-mounts"
SPLIT_CAPTURE: Final = "io.kserve.km/split-cache-capture"

# Values of `cache-type`.
TORCH_COMPILE: Final = "torch-compile"
HABANA_RECIPE: Final = "habana-recipe"

# The environment variable for the cache root of a framework, and the value that MCV writes for KServe's containers.
VLLM_ROOT: Final = "VLLM_CACHE_ROOT"
VLLM_ROOT_VALUE: Final = "/home/kserve/.cache/vllm"
TRITON_ROOT: Final = "TRITON_CACHE_DIR"
HABANA_ROOT: Final = "PT_HPU_RECIPE_CACHE_CONFIG"
# The folder, whether Habana deletes it at startup, and its size limit in MB.
HABANA_ROOT_VALUE: Final = "/home/kserve/.cache/habana,false,8192"

TRITON_VERSIONS: Final = "accelkit.io/cache-triton-versions"
CUDA_VERSIONS: Final = "accelkit.io/cache-cuda-versions"
CPU_ARCHITECTURE: Final = "accelkit.io/cache-cpu-architecture"
GPU_PRODUCT: Final = "accelkit.io/cache-gpu-product"
VARIABLES: Final = "accelkit.io/cache-variables"


def build_label_key(cache_format: str, name: str) -> str:
    """Return the key of an MCV label. `name` is `entry-count`, `summary`, `cache-size-bytes` or `format`."""
    return f"cache.{cache_format}.image/{name}"
