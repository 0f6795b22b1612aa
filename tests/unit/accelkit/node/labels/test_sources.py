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


def test_devices_that_people_select_by_are_named_by_class_and_vendor_and_by_vendor(tmp_path):
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


def test_a_device_that_has_just_gone_hides_no_other(tmp_path):
    device(tmp_path, "0000:19:00.0", "0x030200", "0x10de")
    (tmp_path / "sys/bus/pci/devices/0000:1a:00.0").mkdir()
    assert set(short(read_pci_labels(tmp_path))) == {"pci-0302_10de.present", "pci-10de.present"}


@pytest.mark.parametrize("source", [read_pci_labels, read_cpu_labels, read_kernel_labels, read_system_labels])
def test_what_cannot_be_read_is_not_nothing(tmp_path, source):
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
def test_flags_of_the_processor_have_nfds_names(tmp_path, line, expected):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"processor : 0\n{line}\n\nprocessor : 1\n{line}\n")
    assert set(short(read_cpu_labels(tmp_path))) == {f"cpu-cpuid.{name}" for name in expected}


def test_the_kernel_is_named_whole_and_in_parts(tmp_path):
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
def test_the_system_is_named_with_its_version(tmp_path, version, parts):
    (tmp_path / "etc").mkdir()
    lines = 'NAME="Any Linux"\nID=any\n' + (f'VERSION_ID="{version}"\n' if version else "")
    (tmp_path / "etc/os-release").write_text(lines)
    expected = {"ID": "any", **({"VERSION_ID": version} if version else {}), **parts}
    assert short(read_system_labels(tmp_path)) == {f"system-os_release.{key}": value for key, value in expected.items()}


@pytest.mark.parametrize(
    ("text", "value"), [("NVIDIA H200 NVL", "NVIDIA-H200-NVL"), (" (x) ", "x"), ("é" * 3, None), ("a" * 70, "a" * 63)]
)
def test_values_are_what_labels_take(text, value):
    assert to_label_value(text) == value
