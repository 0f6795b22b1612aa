"""Group files name the paths that workloads see, and each such path has a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hand_made_archives import archive, file
from registries.hostile import HostileRegistry
from served_images import HELLO, extract, put_layers, unsigned, visible

from accelkit.errors import CacheError


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "caches"


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


async def test_another_mount_path_is_another_folder(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    paths = [None, "/a", "/b", "/a/"]
    done = [await extract(hostile_registry, unsigned(image, base, mount_path=path)) for path in paths]
    assert [each.fresh for each in done] == [True, True, True, False]
    assert done[1].place.folder == done[3].place.folder
    assert len(visible(base)) == 3


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
