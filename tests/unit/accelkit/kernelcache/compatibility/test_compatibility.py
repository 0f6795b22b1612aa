"""Which cards can use a cache, why others cannot, and how likely it hits."""

from __future__ import annotations

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, InventoryError
from accelkit.kernelcache.compatibility.node_reading import read_node
from accelkit.kernelcache.compatibility.verdicts import (
    CardVerdict,
    CompatibilityVerdict,
    Fit,
    GpuFacts,
    Hit,
    NodeHardware,
    ReasonCode,
    WorkloadFacts,
    judge,
)
from accelkit.kernelcache.formats import ImageLabels, Target
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

H100 = GpuFacts(id="h", backend="cuda", arch="90", product="NVIDIA H100 80GB HBM3", cuda_version="12.4")
MI210 = GpuFacts(id="m", backend="hip", arch="gfx90a")
HOPPER = Target("cuda", "90", 32)


def _image(*targets: Target, **changes) -> ImageLabels:
    return ImageLabels(**{"format": "triton", "targets": targets, **changes})


def _on(image: ImageLabels, gpu: GpuFacts = H100, workload: WorkloadFacts | None = None, **node) -> CardVerdict:
    (card,) = judge(image, NodeHardware(gpus=(gpu,), **node), workload).cards
    return card


def _codes(card: CardVerdict) -> list[ReasonCode]:
    return [reason.code for reason in card.reasons]


@pytest.mark.parametrize(
    ("target", "gpu"),
    [
        (HOPPER, H100),
        (Target("cuda", "sm_90", 32), H100),
        (Target("cuda", "90", 32), GpuFacts(id="g", backend="CUDA", arch="9.0")),
        (Target("cuda", "sm_90a", 32), GpuFacts(id="g", backend="cuda", arch="90a")),
        (Target("hip", "gfx90a", 64), MI210),
        (Target("rocm", "gfx90a", 64), MI210),
        (Target("hip", "gfx90a", 64), GpuFacts(id="g", backend="rocm", arch="gfx90a:sramecc+:xnack-")),
        (Target("hip", "gfx90a:xnack-", 64), GpuFacts(id="g", backend="hip", arch="gfx90a:sramecc+:xnack-")),
        (Target("hpu"), GpuFacts(id="g", backend="hpu")),
    ],
)
def test_equivalent_target_notations_are_compatible(target: Target, gpu: GpuFacts) -> None:
    card = _on(_image(target), gpu)
    assert (card.verdict, card.reasons) == (CompatibilityVerdict.COMPATIBLE, ())


@pytest.mark.parametrize(
    ("target", "gpu", "code"),
    [
        (Target("hip", "gfx90a", 64), H100, ReasonCode.BACKEND_MISMATCH),
        (Target("cuda", "80", 32), H100, ReasonCode.ARCH_MISMATCH),
        (Target("cuda", "86", 32), GpuFacts(id="g", backend="cuda", arch="89"), ReasonCode.ARCH_MISMATCH),
        (Target("cuda", "sm_90a", 32), H100, ReasonCode.ARCH_MISMATCH),
        (Target("cuda", "100f", 32), GpuFacts(id="g", backend="cuda", arch="100a"), ReasonCode.ARCH_MISMATCH),
        (Target("hip", "gfx942", 64), MI210, ReasonCode.ARCH_MISMATCH),
        (
            Target("hip", "gfx90a:xnack+", 64),
            GpuFacts(id="g", backend="hip", arch="gfx90a:sramecc+:xnack-"),
            ReasonCode.ARCH_MISMATCH,
        ),
        (Target("cuda", "90", 32, 85), H100, ReasonCode.PTX_TOO_NEW),
        (Target("cuda", "90", 32, None, "13.0"), H100, ReasonCode.TOOLKIT_MISMATCH),
    ],
)
def test_unloadable_target_is_incompatible_for_a_hard_reason(target: Target, gpu: GpuFacts, code: ReasonCode) -> None:
    card = _on(_image(target), gpu)
    assert (card.verdict, card.hit) == (CompatibilityVerdict.INCOMPATIBLE, Hit.MISS)
    assert _codes(card) == [code]
    assert card.reasons[0].hard


@pytest.mark.parametrize("target", [Target("cuda", "90", 32, 84), Target("cuda", "90", 32, None, "12.9")])
def test_target_supported_by_the_driver_is_compatible(target: Target) -> None:
    assert _on(_image(target)).verdict is CompatibilityVerdict.COMPATIBLE


@pytest.mark.parametrize(
    ("target", "gpu", "code"),
    [
        (HOPPER, GpuFacts(id="g"), ReasonCode.UNKNOWN_GPU),
        (HOPPER, GpuFacts(id="g", backend="cuda"), ReasonCode.UNKNOWN_GPU),
        (Target("cuda", None, 32), H100, ReasonCode.UNKNOWN_TARGET),
        (Target("cuda", "90", 32, 84), GpuFacts(id="g", backend="cuda", arch="90"), ReasonCode.DRIVER_UNKNOWN),
        (
            Target("cuda", "90", 32, None, "12.4"),
            GpuFacts(id="g", backend="cuda", arch="90"),
            ReasonCode.DRIVER_UNKNOWN,
        ),
        (Target("cuda", "90", 32, None, "twelve"), H100, ReasonCode.UNKNOWN_TARGET),
        (
            Target("cuda", "90", 32, 95),
            GpuFacts(id="g", backend="cuda", arch="90", cuda_version="14.0"),
            ReasonCode.DRIVER_UNKNOWN,
        ),
    ],
)
def test_missing_facts_make_the_verdict_unknown(target: Target, gpu: GpuFacts, code: ReasonCode) -> None:
    card = _on(_image(target), gpu)
    assert card.verdict is CompatibilityVerdict.UNKNOWN
    assert [(reason.code, reason.hard) for reason in card.reasons] == [(code, False)]


def test_cuda_version_is_derived_from_driver_version() -> None:
    old = GpuFacts(id="g", backend="cuda", arch="90", driver_version="535.161.08")
    assert _on(_image(Target("cuda", "90", 32, 82)), old).verdict is CompatibilityVerdict.COMPATIBLE
    assert _codes(_on(_image(Target("cuda", "90", 32, 83)), old)) == [ReasonCode.PTX_TOO_NEW]


def test_image_without_targets_has_unknown_verdict() -> None:
    card = _on(_image())
    assert (card.verdict, card.hit, _codes(card)) == (
        CompatibilityVerdict.UNKNOWN,
        Hit.UNKNOWN,
        [ReasonCode.UNKNOWN_TARGET],
    )


def test_unknown_cache_format_has_unknown_verdict() -> None:
    card = _on(_image(HOPPER, format="jax-persistent"))
    assert (card.verdict, _codes(card)) == (CompatibilityVerdict.UNKNOWN, [ReasonCode.UNKNOWN_FORMAT])


@pytest.mark.parametrize(
    ("target", "gpu"),
    [
        (Target("hip", "gfx1100", 64), GpuFacts(id="g", backend="hip", arch="gfx1100")),
        (Target("hip", "gfx90a", 32), MI210),
        (Target("cuda", "90", 64), H100),
    ],
)
def test_warp_size_mismatch_is_not_a_hard_reason(target: Target, gpu: GpuFacts) -> None:
    card = _on(_image(target), gpu)
    assert card.verdict is CompatibilityVerdict.COMPATIBLE
    assert [(reason.code, reason.hard) for reason in card.reasons] == [(ReasonCode.WARP_SIZE_MISMATCH, False)]


def test_one_compatible_target_is_sufficient() -> None:
    card = _on(_image(Target("cuda", "80", 32), Target("hip", "gfx90a", 64), HOPPER))
    assert (card.verdict, card.reasons) == (CompatibilityVerdict.COMPATIBLE, ())


def test_reasons_are_those_of_the_closest_target() -> None:
    card = _on(_image(Target("hip", "gfx90a", 64), Target("cuda", "80", 32), Target("cuda", "90", 32, None, "13.0")))
    assert _codes(card) == [ReasonCode.TOOLKIT_MISMATCH]


def test_unknown_target_has_precedence_over_incompatible_target() -> None:
    card = _on(_image(Target("cuda", "80", 32), Target("cuda", None, 32)))
    assert (card.verdict, _codes(card)) == (CompatibilityVerdict.UNKNOWN, [ReasonCode.UNKNOWN_TARGET])


@pytest.mark.parametrize(
    ("built", "node", "verdict", "codes"),
    [
        ("amd64", "amd64", CompatibilityVerdict.COMPATIBLE, []),
        ("amd64", "x86_64", CompatibilityVerdict.COMPATIBLE, []),
        ("amd64", "arm64", CompatibilityVerdict.INCOMPATIBLE, [ReasonCode.CPU_ARCH_MISMATCH]),
        ("amd64", None, CompatibilityVerdict.UNKNOWN, [ReasonCode.CPU_ARCH_UNKNOWN]),
        (None, "arm64", CompatibilityVerdict.COMPATIBLE, []),
    ],
)
def test_launchers_require_matching_cpu_architecture(
    built, node, verdict: CompatibilityVerdict, codes: list[ReasonCode]
) -> None:
    card = _on(_image(HOPPER, cpu_architecture=built), cpu_architecture=node)
    assert (card.verdict, _codes(card)) == (verdict, codes)


@pytest.mark.parametrize(
    ("offered", "wanted", "hit", "codes"),
    [
        (("3.2.0",), "3.2.0", Hit.LIKELY, []),
        (("3.2.0", "3.3.0"), "3.3.0", Hit.LIKELY, []),
        (("3.2.0",), "3.3.0", Hit.MISS, [ReasonCode.TRITON_MISMATCH]),
        (("3.2.0",), None, Hit.ARCH_ONLY, []),
        ((), "3.2.0", Hit.ARCH_ONLY, []),
    ],
)
def test_triton_cache_hits_only_with_its_triton_version(offered, wanted, hit: Hit, codes: list[ReasonCode]) -> None:
    image = _image(HOPPER, triton_versions=offered)
    card = _on(image, workload=WorkloadFacts(triton_version=wanted))
    assert (card.verdict, card.hit, _codes(card)) == (CompatibilityVerdict.COMPATIBLE, hit, codes)


@pytest.mark.parametrize(
    ("image", "workload", "hit", "codes"),
    [
        ({}, {}, Hit.LIKELY, []),
        ({"gpu_product": "NVIDIA H100 PCIe"}, {}, Hit.MISS, [ReasonCode.PRODUCT_MISMATCH]),
        ({"gpu_product": None}, {}, Hit.ARCH_ONLY, []),
        ({"cuda_versions": ("12.6",)}, {}, Hit.MISS, [ReasonCode.FRAMEWORK_MISMATCH]),
        ({}, {"cuda_version": None}, Hit.ARCH_ONLY, []),
        ({"hashes": ("aa", "bb")}, {"cache_hash": "bb"}, Hit.LIKELY, []),
        ({"hashes": ("aa",)}, {"cache_hash": "bb"}, Hit.MISS, [ReasonCode.FRAMEWORK_MISMATCH]),
    ],
)
def test_vllm_cache_hits_only_with_same_card_model_and_framework(image, workload, hit: Hit, codes) -> None:
    offered = {"format": "vllm", "gpu_product": H100.product, "cuda_versions": ("12.8",), **image}
    card = _on(_image(HOPPER, **offered), workload=WorkloadFacts(**{"cuda_version": "12.8", **workload}))
    assert (card.verdict, card.hit, _codes(card)) == (CompatibilityVerdict.COMPATIBLE, hit, codes)
    assert not any(reason.hard for reason in card.reasons)


def test_hit_factors_include_unknown_values() -> None:
    image = _image(
        HOPPER, format="vllm", gpu_product=H100.product, triton_versions=("3.2.0", "3.3.0"), cuda_versions=()
    )
    factors = _on(image, workload=WorkloadFacts(triton_version="3.4.0", cuda_version="12.8")).factors
    assert [(each.name, each.agrees, each.message) for each in factors] == [
        ("Triton", False, "the cache was compiled with Triton 3.2.0, 3.3.0, but the workload uses 3.4.0"),
        ("card", True, f"the cache was compiled with a card named {H100.product}, as the workload requires"),
        ("CUDA", None, "the image does not state which CUDA was used for compilation"),
    ]
    (unknown, *_) = _on(image).factors
    assert (unknown.agrees, unknown.message) == (
        None,
        "the cache was compiled with Triton 3.2.0, 3.3.0, but the workload's value is unknown",
    )


def test_hit_has_no_factors_if_card_cannot_load_the_kernels() -> None:
    card = _on(_image(HOPPER, triton_versions=("3.2.0",)), MI210, WorkloadFacts(triton_version="3.2.0"))
    assert (card.hit, card.factors) == (Hit.MISS, ())


@pytest.mark.parametrize(
    ("target", "facts", "codes"),
    [
        (Target("cuda", "90", 32, 91), {"driver_version": "999.1"}, []),
        (Target("cuda", "90", 32, 92), {"driver_version": "999.1"}, [ReasonCode.DRIVER_UNKNOWN]),
        (Target("cuda", "90", 32, None, "14.0"), {"driver_version": "999.1"}, [ReasonCode.DRIVER_UNKNOWN]),
        (Target("cuda", "90", 32, 92), {"driver_version": "590.1"}, [ReasonCode.PTX_TOO_NEW]),
        (Target("cuda", "90", 32, 92), {"driver_version": "999.1", "cuda_version": "13.1"}, [ReasonCode.PTX_TOO_NEW]),
    ],
)
def test_unknown_newer_driver_is_not_reported_as_too_old(target: Target, facts, codes) -> None:
    card = _on(_image(target), GpuFacts(id="g", backend="cuda", arch="90", **facts))
    assert _codes(card) == codes
    assert card.verdict is {
        (): CompatibilityVerdict.COMPATIBLE,
        (ReasonCode.DRIVER_UNKNOWN,): CompatibilityVerdict.UNKNOWN,
    }.get(tuple(codes), CompatibilityVerdict.INCOMPATIBLE)


def test_card_name_does_not_affect_triton_cache_hit() -> None:
    image = _image(HOPPER, gpu_product="NVIDIA H100 PCIe", triton_versions=("3.2.0",))
    assert _on(image, workload=WorkloadFacts(triton_version="3.2.0")).hit is Hit.LIKELY


def test_hit_is_unknown_on_unknown_card() -> None:
    assert _on(_image(HOPPER), GpuFacts(id="g")).hit is Hit.UNKNOWN


@pytest.mark.parametrize(
    ("gpus", "fit"),
    [
        ((H100, H100), Fit.ALL),
        ((H100, MI210), Fit.SOME),
        ((H100, GpuFacts(id="g")), Fit.SOME),
        ((MI210,), Fit.NONE),
        ((MI210, GpuFacts(id="g")), Fit.UNKNOWN),
        ((), Fit.NONE),
        (None, Fit.UNKNOWN),
    ],
)
def test_node_fit_summarizes_the_verdicts_of_its_cards(gpus, fit: Fit) -> None:
    assert judge(_image(HOPPER), NodeHardware(gpus=gpus)).fit is fit


def test_node_without_cards_has_no_gpu_reason() -> None:
    (reason,) = judge(_image(HOPPER), NodeHardware(gpus=())).reasons
    assert (reason.code, reason.hard) == (ReasonCode.NO_GPU, True)


def test_inventory_facts_contain_only_certain_values() -> None:
    cards = [
        Card("GPU-1", "nvidia", "NVIDIA H100 80GB HBM3", None),
        Card("GPU-2", "amd", "AMD Instinct MI300X", None),
        Card("0000:1a", "nvidia", "NVIDIA Mystery", None),
        Card("c", "enflame", "S60", None),
    ]
    facts = NodeHardware.from_inventory(cards, cpu_architecture="amd64", driver_version="550.54.14")
    assert facts.gpus == (
        GpuFacts(id="GPU-1", backend="cuda", arch="90", product="NVIDIA H100 80GB HBM3", driver_version="550.54.14"),
        GpuFacts(id="GPU-2", backend="hip", arch="gfx942", product="AMD Instinct MI300X"),
        GpuFacts(id="0000:1a", backend="cuda", product="NVIDIA Mystery", driver_version="550.54.14"),
        GpuFacts(id="c", product="S60"),
    )


def test_missing_inventory_means_unknown_cards() -> None:
    assert NodeHardware.from_inventory(None).gpus is None


def one_node(*, annotations: dict[str, str] | None = None) -> FakeApi:
    """An API server that has one node."""
    api, info = FakeApi(), {"nodeInfo": {"architecture": "amd64"}}
    api.store(NODES, {"metadata": {"name": "worker-1", "annotations": annotations}, "status": info})
    return api


async def test_node_facts_combine_inventory_with_given_driver_version() -> None:
    cards = (Card("GPU-1", "nvidia", "NVIDIA H100 80GB HBM3", None), Card("GPU-2", "amd", "AMD Instinct MI300X", None))
    api = one_node(annotations={INVENTORY_ANNOTATION: encode_inventory(Inventory(1 << 30, cards))})
    facts = await read_node(api, "worker-1", driver_version="550.54.14", driver_cuda_version="12.4")
    assert facts.cpu_architecture == "amd64"
    assert [(each.arch, each.driver_version, each.cuda_version) for each in facts.gpus or ()] == [
        ("90", "550.54.14", "12.4"),
        ("gfx942", None, None),
    ]


async def test_given_driver_version_overrides_the_inventory() -> None:
    card = Card("GPU-1", "nvidia", "NVIDIA H100 80GB HBM3", None, driver_version="570.10")
    api = one_node(annotations={INVENTORY_ANNOTATION: encode_inventory(Inventory(1 << 30, (card,)))})
    found = [
        await read_node(api, "worker-1"),
        await read_node(api, "worker-1", driver_version="550.54.14"),
        await read_node(api, "worker-1", driver_cuda_version="12.4"),
    ]
    assert [[(each.driver_version, each.cuda_version) for each in facts.gpus or ()] for facts in found] == [
        [("570.10", None)],
        [("550.54.14", None)],
        [(None, "12.4")],
    ]


@pytest.mark.parametrize("annotations", [None, {}, {"accelkit.io/share": "true"}])
async def test_node_without_inventory_has_unknown_cards(annotations) -> None:
    assert (await read_node(one_node(annotations=annotations), "worker-1")).gpus is None


async def test_invalid_inventory_is_an_error_with_the_node_name() -> None:
    api = one_node(annotations={INVENTORY_ANNOTATION: "{}"})
    with pytest.raises(InventoryError, match="cannot use the inventory of node worker-1"):
        await read_node(api, "worker-1")


async def test_invalid_node_response_is_an_error() -> None:
    api = FakeApi()
    api.documents[build_node_path("worker-1")] = b"[]"
    with pytest.raises(ApiError, match="cannot read node worker-1"):
        await read_node(api, "worker-1")
