import pytest

from accelkit.node.labels.sources import (
    FEATURE,
    read_cpu_labels,
    read_kernel_labels,
    read_pci_labels,
    read_system_labels,
    to_label_value,
)


def short(labels):
    return {key.removeprefix(FEATURE): value for key, value in labels.items()}


def device(root, name, number, vendor, **files):
    folder = root / "sys/bus/pci/devices" / name
    folder.mkdir(parents=True)
    for file, text in {"class": number, "vendor": vendor, **files}.items():
        (folder / file).write_text(f"{text}\n")


def test_relevant_pci_devices_are_labelled_by_class_and_vendor(tmp_path):
    device(tmp_path, "0000:19:00.0", "0x030200", "0x10de", sriov_totalvfs="16")
    device(tmp_path, "0000:1a:00.0", "0x020700", "0x15b3", sriov_totalvfs="0")
    device(tmp_path, "0000:1b:00.0", "0x120000", "0x10ee")
    device(tmp_path, "0000:00:1f.0", "0x060100", "0x8086")
    assert short(read_pci_labels(tmp_path)) == {
        "pci-0302_10de.present": "true",
        "pci-10de.present": "true",
        "pci-0302_10de.sriov.capable": "true",
        "pci-10de.sriov.capable": "true",
        "pci-0207_15b3.present": "true",
        "pci-15b3.present": "true",
        "pci-1200_10ee.present": "true",
        "pci-10ee.present": "true",
    }


def test_device_without_files_does_not_affect_other_devices(tmp_path):
    device(tmp_path, "0000:19:00.0", "0x030200", "0x10de")
    (tmp_path / "sys/bus/pci/devices/0000:1a:00.0").mkdir()
    assert set(short(read_pci_labels(tmp_path))) == {"pci-0302_10de.present", "pci-10de.present"}


@pytest.mark.parametrize("source", [read_pci_labels, read_cpu_labels, read_kernel_labels, read_system_labels])
def test_unreadable_source_returns_none(tmp_path, source):
    assert source(tmp_path) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "flags\t\t: fpu sse sse4_2 aes avx avx2 avx512f amx_tile vmx pni",
            {"AESNI", "AVX", "AVX2", "AVX512F", "AMXTILE", "VMX"},
        ),
        ("Features\t: fp asimd sve i8mm evtstrm", {"ASIMD", "SVE", "I8MM"}),
    ],
)
def test_cpu_flags_are_labelled_with_nfd_names(tmp_path, line, expected):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"processor : 0\n{line}\n\nprocessor : 1\n{line}\n")
    assert set(short(read_cpu_labels(tmp_path))) == {f"cpu-cpuid.{name}" for name in expected}


def test_kernel_version_is_labelled_in_full_and_in_parts(tmp_path):
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.14.3-rc1+deb#x\n")
    assert short(read_kernel_labels(tmp_path)) == {
        "kernel-version.full": "6.14.3-rc1-deb-x",
        "kernel-version.major": "6",
        "kernel-version.minor": "14",
        "kernel-version.revision": "3",
    }


@pytest.mark.parametrize(
    ("version", "parts"),
    [("22.04", {"VERSION_ID.major": "22", "VERSION_ID.minor": "04"}), ("12", {"VERSION_ID.major": "12"}), ("", {})],
)
def test_operating_system_is_labelled_with_version(tmp_path, version, parts):
    (tmp_path / "etc").mkdir()
    lines = 'NAME="Any Linux"\nID=any\n' + (f'VERSION_ID="{version}"\n' if version else "")
    (tmp_path / "etc/os-release").write_text(lines)
    expected = {"ID": "any", **({"VERSION_ID": version} if version else {}), **parts}
    assert short(read_system_labels(tmp_path)) == {f"system-os_release.{key}": value for key, value in expected.items()}


@pytest.mark.parametrize(
    ("text", "value"), [("NVIDIA H200 NVL", "NVIDIA-H200-NVL"), (" (x) ", "x"), ("é" * 3, None), ("a" * 70, "a" * 63)]
)
def test_to_label_value_returns_valid_value_or_none(text, value):
    assert to_label_value(text) == value
