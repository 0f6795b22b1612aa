"""Group files name the paths that workloads see, and each such path has a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hand_made_archives import archive, file
from registries.hostile import HostileRegistry
from served_images import HELLO, extract, put_layers, unsigned, visible

from accelkit.errors import CacheError
from accelkit.gkm import names
from accelkit.kernelcache.extraction.folder import Place


def group(*names: str, at: str = "/build/.triton/cache/K") -> bytes:
    return json.dumps({"child_paths": {name: f"{at}/{name}" for name in names}}).encode()


async def test_triton_group_files_contain_extraction_paths_by_default(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    layer = archive(file("io.triton.cache/K/__grp__k.json", group("k.ttir")), file("io.triton.cache/K/k.ttir"))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), base))
    found = json.loads((done.place.cache / "K/__grp__k.json").read_bytes())
    assert Path(found["child_paths"]["k.ttir"]).read_bytes() == b"content"


async def test_triton_group_files_contain_the_mount_path(hostile_registry: HostileRegistry, base: Path) -> None:
    where = "torch_compile_cache/edf531ca35/rank_0_0/triton_cache/K"
    layer = archive(file(f"io.vllm.cache/{where}/__grp__k.json", group("k.cubin")))
    labels = {"cache.vllm.image/summary": '{"targets":[]}'}
    image = put_layers(hostile_registry, [layer], labels=labels)
    done = await extract(hostile_registry, unsigned(image, base, mount_path="/home/vllm//.cache/vllm/"))
    found = json.loads((done.place.cache / where / "__grp__k.json").read_bytes())
    assert found == {"child_paths": {"k.cubin": f"/home/vllm/.cache/vllm/{where}/k.cubin"}}
    assert done.record.mount_path == "/home/vllm/.cache/vllm"


VLLM = {"cache.vllm.image/summary": '{"targets":[]}'}
PART = "torch_compile_cache/edf531ca35/rank_0_0_dev0/backbone"


def vllm_layer(named: str) -> bytes:
    index = repr({((1, 8), 0, "inductor_standalone"): ("artifact_0", named)}).encode()
    return archive(
        file(f"io.vllm.cache/{PART}/artifact_0"),
        file(f"io.vllm.cache/{PART}/vllm_compile_cache.py", index),
        file("io.vllm.cache/triton/K/__grp__k.json", group("k.cubin", at="/tmp/triton/K")),
    )


async def test_vllm_compile_cache_index_contains_the_mount_path(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [vllm_layer(f"/root/.cache/vllm/{PART}/artifact_0")], labels=VLLM)
    done = await extract(hostile_registry, unsigned(image, base, mount_path="/cache"))
    assert f"'/cache/{PART}/artifact_0'" in (done.place.cache / PART / "vllm_compile_cache.py").read_text()


async def test_record_contains_variables_recorded_by_vllm_if_label_is_missing(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    factors = json.dumps({"env": {"VLLM_USE_V1": True, "VLLM_API_KEY": "s3cret"}}).encode()
    layer = archive(file(f"io.vllm.cache/{PART}/cache_key_factors.json", factors))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=VLLM), base))
    assert done.record.labels.variables == {"VLLM_USE_V1": True}
    labelled = {**VLLM, "accelkit.io/cache-variables": '{"VLLM_USE_V1": false}'}
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=labelled), base))
    assert done.record.labels.variables == {"VLLM_USE_V1": False}


async def test_other_vllm_cache_directories_are_extracted(hostile_registry: HostileRegistry, base: Path) -> None:
    beside = ("modelinfos/vllm-model.json", "dummy_cache/0/0", "deep_gemm/K/kernel.cubin", "startup_plan/plan.json")
    layer = archive(*(file(f"io.vllm.cache/{name}") for name in beside))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=VLLM), base))
    assert {str(path.relative_to(done.place.cache)) for path in done.place.cache.rglob("*") if path.is_file()} == {
        *beside
    }


async def test_vllm_index_with_path_outside_the_cache_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [vllm_layer("/tmp/torchinductor_root/x.py")], labels=VLLM)
    with pytest.raises(CacheError, match=r"names /tmp/torchinductor_root/x\.py, which the cache does not contain"):
        await extract(hostile_registry, unsigned(image, base, mount_path="/cache"))
    assert visible(base) == []


async def test_file_named_like_the_vllm_index_is_unchanged_in_other_formats(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    layer = archive(file("io.triton.cache/K/vllm_compile_cache.py", b"import os"))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), base))
    assert (done.place.cache / "K/vllm_compile_cache.py").read_bytes() == b"import os"


async def test_split_capture_contains_the_mount_path_of_each_subdirectory(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    mounts = [
        {"subPath": "triton", "absPath": "/var/tmp/triton", "env": "TRITON_CACHE_DIR"},
        {"subPath": "torch_compile_cache/edf531ca35", "absPath": "/compiled"},
    ]
    labels = {
        **VLLM,
        "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/root/.cache/vllm",
        "io.kserve.km/cache-mounts": json.dumps(mounts),
        "io.kserve.km/split-cache-capture": "true",
    }
    layer = vllm_layer("/compiled/rank_0_0_dev0/backbone/artifact_0")
    done = await extract(
        hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=labels), base, mount_path="/cache")
    )
    found = json.loads((done.place.cache / "triton/K/__grp__k.json").read_bytes())
    assert found == {"child_paths": {"k.cubin": "/var/tmp/triton/K/k.cubin"}}
    index = (done.place.cache / PART / "vllm_compile_cache.py").read_text()
    assert "'/compiled/rank_0_0_dev0/backbone/artifact_0'" in index


async def test_each_mount_path_has_its_own_directory(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    paths = [None, "/a", "/b", "/a/"]
    done = [await extract(hostile_registry, unsigned(image, base, mount_path=path)) for path in paths]
    assert [each.fresh for each in done] == [True, True, True, False]
    assert done[1].place.folder == done[3].place.folder
    assert len(visible(base)) == 3


async def test_mount_paths_with_equal_hash_prefix_have_separate_directories(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    # The first 32 bits of their sha256 are the same.
    alike = ["/opt/m2189", "/opt/m45943"]
    image = put_layers(hostile_registry, [HELLO])
    done = [await extract(hostile_registry, unsigned(image, base, mount_path=path)) for path in alike]
    assert [each.record.mount_path for each in done] == alike
    assert len(visible(base)) == 2
    expected = [names.name_folder(image.require_digest(), path) for path in alike]
    assert [each.place.folder.name for each in done] == expected


async def test_complete_cache_for_another_mount_path_is_not_replaced(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    others = await extract(hostile_registry, unsigned(image, base, mount_path="/others"))
    place = Place.of(base, image.require_digest(), "/ours")
    others.place.folder.rename(place.folder)
    with pytest.raises(CacheError, match=r"contains the cache for /others.*delete that folder once"):
        await extract(hostile_registry, unsigned(image, base, mount_path="/ours"))
    assert (place.cache / "K/k.json").read_bytes() == b"{}"
    assert visible(base) == [place.folder.name]


@pytest.mark.parametrize("path", ["cache", "", "/a/../b", "/a/./b", "/a\nb"])
async def test_relative_or_unclean_mount_path_is_rejected(
    hostile_registry: HostileRegistry, base: Path, path: str
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    with pytest.raises(CacheError, match="is not an absolute path"):
        await extract(hostile_registry, unsigned(image, base, mount_path=path))
    assert hostile_registry.requests == []


async def test_group_file_with_path_outside_its_directory_is_refused(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    layer = archive(file("io.triton.cache/K/__grp__k.json", b'{"child_paths": {"../x": "/y"}}'))
    with pytest.raises(CacheError, match="group file"):
        await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), base))
    assert visible(base) == []
