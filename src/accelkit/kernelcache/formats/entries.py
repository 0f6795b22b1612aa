"""The entries of a cache in MCV's `manifest.json`. The format determines the names, the order and the omitted fields.

MCV omits zeros and empty strings in most fields. Therefore, unlike in other modules, a missing number means zero here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

MEGA_AOT: Final = "mega-aot"


class Kernel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kernel that Triton compiled.

    Attributes:
        hash: Triton's key of the kernel.
        dummy_key: the value that MCV compares instead of Triton's key if MCV runs outside of containers.
        arch: the architecture, such as `75` or `gfx90a`; MCV also accepts a number.
    """

    hash: str
    dummy_key: str = ""
    ptx_version: int = 0
    num_stages: int = 0
    num_warps: int = 0
    debug: bool = False
    backend: str
    arch: str | int
    warp_size: int


class BinaryArtifacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The compiled artifacts for one part of a model (`prefix`) and one rank.

    Attributes:
        artifact_names: the names of files or folders, sorted; the bundle of a whole model is the single file `model`.
        cache_save_format: `binary` for files, `unpacked` for folders, `mega-aot` for the bundle.
        target_device: the device for which vLLM was built, such as `cuda` or `rocm`; empty if vLLM did not record it.
        env: the environment that vLLM recorded.
    """

    rank: str
    prefix: str
    artifact_count: int
    artifact_names: tuple[str, ...] = ()
    code_hash: str = ""
    config_hash: str = ""
    compiler_hash: str = ""
    cache_save_format: str = ""
    target_device: str = ""
    env: dict[str, Any] = {}


class AotModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was compiled ahead of time for one rank. `file_size` is in bytes."""

    hash: str
    rank: str
    model_file: str
    file_size: int


class VllmEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hash folder of vLLM's torch.compile cache. `cache_format` specifies which of the three lists is not empty."""

    vllm_hash: str = msgspec.field(name="vllmHash")
    cache_format: str = msgspec.field(name="cacheFormat")
    triton: tuple[Kernel, ...] = ()
    binary: tuple[BinaryArtifacts, ...] = ()
    aot_compile: tuple[AotModel, ...] = ()


class HabanaRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """A graph compiled by Habana's Synapse. Sizes are in bytes; the size of a missing file is 0."""

    graph_hash: str = msgspec.field(name="graphHash")
    device_id: str = msgspec.field(name="deviceId")
    synapse_version: str = msgspec.field(name="synapseVersion")
    recipe_size: int = msgspec.field(name="recipeSize")
    metadata_size: int = msgspec.field(name="metadataSize")


Entry = Kernel | VllmEntry | HabanaRecipe
