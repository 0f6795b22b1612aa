"""The command of a Job, with the files that it is given, against a registry: who may sign decides here too."""

import msgspec
import pytest
from click.testing import CliRunner
from pretended_cluster import OURS, cache_of
from private_sigstore import PrivateSigstore
from registries.caches import cache_folder, publish, sign
from registries.hostile import HostileRegistry

from accelkit.cachecontroller.delivery import FillSettings
from accelkit.cachecontroller.filling.manifests import write_job, write_settings
from accelkit.cachecontroller.filling.objects import Target
from accelkit.cli import main

SIGSTORE = PrivateSigstore.new()
KEY, OTHER = SIGSTORE.key(), SIGSTORE.key()


@pytest.fixture
def registry():
    with HostileRegistry() as started:
        yield started


def run_job(registry, folder, signer, named):
    """Run what the Job of an image runs; who signed it, and whom the cluster's policy names."""
    image = publish(registry.host, cache_folder(folder / "source"))
    sign(registry.host, image, signer)
    cache = cache_of(image.digest)
    status = msgspec.structs.replace(cache.status, resolved_image=f"{registry.host}/team/cache:v1")
    target = Target(msgspec.structs.replace(cache, status=status), "team", image.digest, "/cache")
    settings = FillSettings("i", OURS, "", ("--plain-http", registry.host))
    who = {"key": {"data": named.key.public_pem.decode()}, "transparencyLog": "notRequired"}
    policies = {"acme": {"images": [f"{registry.host}/team/**"], "signers": [who]}}
    for name, text in write_settings(target, "shared", settings, policies)["data"].items():
        (folder / name).write_text(text)
    (folder / "volume").mkdir()
    job = write_job(target, settings, name="j", claim="c", shared="shared", attempt=1, check=False)
    words = job["spec"]["template"]["spec"]["containers"][0]["args"]
    places = {"/volume": folder / "volume", "/etc/accelkit/fill": folder}
    for place, real in places.items():
        words = [str(real) + each.removeprefix(place) if each.startswith(place) else each for each in words]
    return CliRunner().invoke(main, words)


def test_fill_job_extracts_cache_into_root_of_volume(registry, tmp_path):
    done = run_job(registry, tmp_path, KEY, KEY)
    assert done.exit_code == 0, done.output
    (group,) = (tmp_path / "volume").rglob("__grp__*")
    assert "/cache/" in group.read_text()


def test_fill_job_rejects_signer_that_policies_do_not_name(registry, tmp_path):
    done = run_job(registry, tmp_path, OTHER, KEY)
    assert done.exit_code == 1
    assert not any((tmp_path / "volume").rglob("*.cubin"))
