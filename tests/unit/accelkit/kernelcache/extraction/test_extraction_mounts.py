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


async def test_triton_finds_its_files_where_they_were_extracted(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(file("io.triton.cache/K/__grp__k.json", group("k.ttir")), file("io.triton.cache/K/k.ttir"))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), base))
    found = json.loads((done.place.cache / "K/__grp__k.json").read_bytes())
    assert Path(found["child_paths"]["k.ttir"]).read_bytes() == b"content"


async def test_group_files_say_the_mount_path(hostile_registry: HostileRegistry, base: Path) -> None:
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


async def test_vllms_list_says_the_mount_path(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [vllm_layer(f"/root/.cache/vllm/{PART}/artifact_0")], labels=VLLM)
    done = await extract(hostile_registry, unsigned(image, base, mount_path="/cache"))
    assert f"'/cache/{PART}/artifact_0'" in (done.place.cache / PART / "vllm_compile_cache.py").read_text()


async def test_a_record_says_what_vllm_recorded_where_the_label_does_not(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    factors = json.dumps({"env": {"VLLM_USE_V1": True, "VLLM_API_KEY": "s3cret"}}).encode()
    layer = archive(file(f"io.vllm.cache/{PART}/cache_key_factors.json", factors))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=VLLM), base))
    assert done.record.labels.variables == {"VLLM_USE_V1": True}
    labelled = {**VLLM, "accelkit.io/cache-variables": '{"VLLM_USE_V1": false}'}
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=labelled), base))
    assert done.record.labels.variables == {"VLLM_USE_V1": False}


async def test_what_vllm_keeps_beside_its_compile_cache_is_kept(hostile_registry: HostileRegistry, base: Path) -> None:
    beside = ("modelinfos/vllm-model.json", "dummy_cache/0/0", "deep_gemm/K/kernel.cubin", "startup_plan/plan.json")
    layer = archive(*(file(f"io.vllm.cache/{name}") for name in beside))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer], labels=VLLM), base))
    assert {str(path.relative_to(done.place.cache)) for path in done.place.cache.rglob("*") if path.is_file()} == {
        *beside
    }


async def test_a_list_that_leads_out_of_the_cache_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [vllm_layer("/tmp/torchinductor_root/x.py")], labels=VLLM)
    with pytest.raises(CacheError, match=r"names /tmp/torchinductor_root/x\.py, which the cache does not contain"):
        await extract(hostile_registry, unsigned(image, base, mount_path="/cache"))
    assert visible(base) == []


async def test_a_file_of_that_name_is_a_file_elsewhere(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(file("io.triton.cache/K/vllm_compile_cache.py", b"import os"))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), base))
    assert (done.place.cache / "K/vllm_compile_cache.py").read_bytes() == b"import os"


async def test_trees_of_a_split_capture_say_the_paths_they_are_mounted_at(
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


async def test_another_mount_path_is_another_folder(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    paths = [None, "/a", "/b", "/a/"]
    done = [await extract(hostile_registry, unsigned(image, base, mount_path=path)) for path in paths]
    assert [each.fresh for each in done] == [True, True, True, False]
    assert done[1].place.folder == done[3].place.folder
    assert len(visible(base)) == 3


async def test_mount_paths_whose_hashes_begin_alike_have_folders_of_their_own(
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


async def test_a_whole_cache_for_another_mount_path_is_never_displaced(
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
async def test_a_mount_path_is_absolute_and_plain(hostile_registry: HostileRegistry, base: Path, path: str) -> None:
    image = put_layers(hostile_registry, [HELLO])
    with pytest.raises(CacheError, match="is not an absolute path"):
        await extract(hostile_registry, unsigned(image, base, mount_path=path))
    assert hostile_registry.requests == []


async def test_a_group_file_that_names_other_folders_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(file("io.triton.cache/K/__grp__k.json", b'{"child_paths": {"../x": "/y"}}'))
    with pytest.raises(CacheError, match="group file"):
        await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), base))
    assert visible(base) == []
