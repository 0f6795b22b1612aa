"""Compiler backends: their names, the architectures of cards, and warp sizes, all of it data."""

import pytest

from accelkit.kernelcache.formats.backends import find_backend, find_vendor_backend, load_backends


@pytest.mark.parametrize(
    ("vendor", "model", "architecture"),
    [
        ("nvidia", "Tesla T4", "75"),
        ("nvidia", "NVIDIA A100-SXM4-80GB", "80"),
        ("nvidia", "NVIDIA L40S", "89"),
        ("nvidia", "NVIDIA H200", "90"),
        ("nvidia", "NVIDIA B200", "100"),
        ("nvidia", "NVIDIA RTX A4000", None),
        ("amd", "AMD Instinct MI250X / MI250", "gfx90a"),
        ("amd", "AMD Instinct MI60 / MI50", "gfx906"),
        ("amd", "AMD Instinct MI100 / MI210", None),
        ("amd", "Tesla T4", None),
        ("intel", "Data Center GPU Max 1550", None),
    ],
)
def test_architecture_is_derived_only_from_unambiguous_model_name(vendor, model, architecture):
    assert find_vendor_backend(vendor).find_architecture(model) == architecture


@pytest.mark.parametrize(
    ("vendor", "backend"), [("nvidia", "cuda"), ("amd", "hip"), ("gaudi", "hpu"), ("intel", "xpu")]
)
def test_each_vendor_has_its_backend(vendor, backend):
    assert find_vendor_backend(vendor).name == backend


def test_vendor_without_backend_returns_none():
    assert find_vendor_backend("enflame") is None


@pytest.mark.parametrize(("name", "found"), [("rocm", "hip"), ("ROCm", "hip"), ("level_zero", "xpu"), ("CUDA", "cuda")])
def test_backend_is_found_by_alias_in_any_case(name, found):
    assert find_backend(name).name == found


def test_unknown_backend_keeps_its_name_without_capabilities():
    backend = find_backend("MUSA")
    assert (backend.name, backend.cuda_toolkit, backend.find_warp_size("31")) == ("musa", False, None)
    assert backend.is_same_architecture("mp_31", "mp_31")


def test_names_vendors_and_models_are_unique_across_backends():
    backends = load_backends()
    names = [name for each in backends for name in (each.name, *each.aliases)]
    vendors = [vendor for each in backends for vendor in each.vendors]
    models = [(each.name, model) for each in backends for listed in each.architectures.values() for model in listed]
    for found in (names, vendors, models):
        assert len(set(found)) == len(found) > 0


@pytest.mark.parametrize(
    ("backend", "architecture", "threads"),
    [
        ("cuda", "90", 32),
        ("cuda", None, 32),
        ("hip", "gfx942", 64),
        ("hip", "gfx1100", 32),
        ("hip", None, None),
        ("hpu", None, None),
        ("xpu", "pvc", None),
    ],
)
def test_warp_size_is_derived_from_architecture(backend, architecture, threads):
    assert find_backend(backend).find_warp_size(architecture) == threads


@pytest.mark.parametrize(
    ("backend", "given", "written"), [("cuda", "90", "sm_90"), ("cuda", "sm_90", "sm_90"), ("hip", "gfx942", "gfx942")]
)
def test_architecture_prefix_is_added_once(backend, given, written):
    assert find_backend(backend).add_prefix(given) == written
