from decimal import Decimal, localcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accelkit.errors import QuantityError
from accelkit.model.units import (
    MAX_AMOUNT,
    UNITS,
    format_bytes,
    format_unit,
    parse_quantity,
    parse_size,
    parse_unit,
)

SCALES = dict.fromkeys(["", "e0"], 1)
SCALES |= {suffix: 1000 ** (power + 1) for power, suffix in enumerate("kMGTPE")}
SCALES |= {f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")}
SCALES |= {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
SCALES |= {"e3": 1000, "E2": 100, "e-1": Decimal("0.1")}
NUMBERS = st.from_regex(r"[+-]?[0-9]{1,12}(\.[0-9]{1,12})?", fullmatch=True)


@given(NUMBERS, st.sampled_from(sorted(SCALES)))
@example("1.00000000000000000000000000001", "Gi")
def test_parse_quantity_returns_exact_amount_or_refuses(number, suffix):
    with localcontext(prec=200):
        exact = Decimal(number) * SCALES[suffix]
        whole = exact == exact.to_integral_value()
    if whole and 0 <= exact <= MAX_AMOUNT:
        assert parse_quantity(number + suffix) == exact
    else:
        with pytest.raises(QuantityError):
            parse_quantity(number + suffix)


@given(st.text(alphabet="0123456789.+-eEkKMGTPimnu ", max_size=12))
@example("1ki")
@example("1E")
@example(".")
def test_parse_quantity_returns_amount_or_error_with_text(text):
    try:
        read = parse_quantity(text)
    except QuantityError as error:
        read = error.message
    assert text in read if isinstance(read, str) else 0 <= read <= MAX_AMOUNT


@pytest.mark.parametrize("text", ["", " 8", "8 ", "0x10", "1_000", "٣", "Gi", "1GiB", "1Gii", "1e1000", "NaN", "inf"])
def test_quantity_that_kubernetes_rejects_is_refused(text):
    with pytest.raises(QuantityError):
        parse_quantity(text)


@given(st.integers(0, MAX_AMOUNT))
def test_integer_in_range_is_parsed_unchanged(number):
    assert parse_quantity(number) == parse_quantity(str(number)) == number


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (-1, "is negative"),
        ("-1Gi", "is negative"),
        (MAX_AMOUNT + 1, "out of range"),
        ("8Ei", "out of range"),
        ("1e30", "out of range"),
        ("1e999", "out of range"),
        ("1m", "not a whole number"),
        ("0.5", "not a whole number"),
        ("1e-30", "not a whole number"),
    ],
)
def test_error_for_refused_quantity_contains_reason(value, sentence):
    with pytest.raises(QuantityError, match=sentence):
        parse_quantity(value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 2**30),
        ("0.1GB", 10**8),
        ("512 MiB", 2**29),
        ("1024", 1024),
        (" 1Ti ", 2**40),
        ("1.5KiB", 1536),
        ("2K", 2000),
        ("7B", 7),
    ],
)
def test_parse_size_accepts_common_spellings(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "0", "0GiB", "0.3B", "1 GiB more", "1..5G", "16EiB", "1e9"])
def test_invalid_zero_or_too_large_size_is_refused(text):
    with pytest.raises(QuantityError):
        parse_size(text)


@given(
    st.integers(1, 2**50) | st.builds(lambda n, s: n * 2**s, st.integers(1, 9999), st.sampled_from([10, 20, 30, 40]))
)
def test_formatted_bytes_are_parsed_back_within_rounding(amount):
    text = format_bytes(amount)
    if "." not in text:
        assert parse_size(text) == amount
    else:
        number, unit = text.split()
        scale = parse_size(f"1{unit}")
        assert abs(float(number) * scale - amount) <= 0.051 * scale


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (16 * 2**30, "16 GiB"),
        (10**8, "100 MB"),
        (3 * 2**29 + 1, "1.5 GiB"),
        (999, "999 B"),
        (-4 * 2**30, "-4 GiB"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1025, "1.0 KiB"),
        (-1025, "-1.0 KiB"),
        (9999 * 2**10, "9999 KiB"),
        (10_000 * 2**10, "9.8 MiB"),
        (10_001 * 2**10, "9.8 MiB"),
        (1500 * 10**3, "1500 kB"),
    ],
)
def test_format_bytes_chooses_most_readable_unit(amount, text):
    assert format_bytes(amount) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 2**30),
        ("0.1", 107_374_182),
        ("0.01", 10_737_418),
        ("0.001", 1_073_741),
        (".10", 107_374_182),
        ("0.1GiB", 107_374_182),
        ("0.001 Gi", 1_073_741),
        ("107374182B", 107_374_182),
        ("1GB", 10**9),
        ("100MB", 10**8),
        ("0.1GB", 10**8),
        ("0.001GB", 10**6),
        ("1GiB", 2**30),
        ("1024 MiB", 2**30),
        (" 1Mi ", 2**20),
    ],
)
def test_parse_unit_accepts_any_spelling_of_supported_unit(text, size):
    assert parse_unit(text) == size
    assert format_unit(size) in UNITS


@pytest.mark.parametrize(
    "text",
    ["", "x", "1B", "3GiB", "0.2", "0.2GiB", "0.1MiB", "102.4MiB", "1024", "0", "-1", "0.0001", "1e-3", ".", "1.2.3"],
)
def test_unsupported_unit_is_refused_with_supported_units(text):
    with pytest.raises(QuantityError, match=r"not a unit of memory; choose one of 1GiB, 1GB, 512MiB.*0\.001GB"):
        parse_unit(text)


def test_format_unit_returns_bytes_for_unsupported_unit():
    assert format_unit(3) == "3 B"


@pytest.mark.parametrize(
    ("suffix", "scale"),
    [
        *(("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12), ("P", 10**15), ("E", 10**18)),
        *(("Ki", 2**10), ("Mi", 2**20), ("Gi", 2**30), ("Ti", 2**40), ("Pi", 2**50), ("Ei", 2**60)),
        *(("e3", 10**3), ("E3", 10**3), ("e+3", 10**3), ("E18", 10**18), ("e018", 10**18)),
    ],
)
def test_every_kubernetes_suffix_has_its_scale(suffix, scale):
    assert parse_quantity(f"3{suffix}") == 3 * scale
    assert parse_quantity(f"+3{suffix}") == 3 * scale


@pytest.mark.parametrize(("suffix", "parts"), [("m", 10**3), ("u", 10**6), ("n", 10**9), ("e-3", 10**3)])
def test_quantity_with_fractional_suffix_must_be_a_whole_number(suffix, parts):
    assert parse_quantity(f"{7 * parts}{suffix}") == 7
    with pytest.raises(QuantityError, match="not a whole number"):
        parse_quantity(f"{7 * parts + 1}{suffix}")


@pytest.mark.parametrize(
    ("text", "amount"), [("0", 0), (0, 0), ("-0", 0), (2**63 - 1, 2**63 - 1), ("9e18", 9 * 10**18)]
)
def test_parse_quantity_accepts_zero_to_int64_maximum(text, amount):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("suffix", ["k", "K", "kB", "KB", "M", "MB", "G", "GB", "T", "TB", "P", "PB", "E", "EB"])
def test_size_suffix_without_i_is_decimal(suffix):
    assert parse_size(f"2{suffix}") == 2 * 1000 ** (1 + "kMGTPE".index(suffix[0].replace("K", "k")))


def test_supported_unit_names_are_stable():
    assert list(UNITS) == [
        *("1GiB", "1GB", "512MiB", "256MiB", "128MiB", "0.1GiB", "0.1GB", "64MiB", "32MiB", "16MiB", "0.01GiB"),
        *("0.01GB", "8MiB", "4MiB", "2MiB", "0.001GiB", "1MiB", "0.001GB"),
    ]
    assert [format_unit(parse_unit(name)) for name in UNITS] == list(UNITS)


@pytest.mark.parametrize(("unit", "times"), [("1", 1), ("0.1", 10), ("0.01", 100), ("0.001", 1000)])
def test_card_has_number_of_gcushare_units_stated_in_manual(unit, times):
    assert all(size * 2**30 // parse_unit(unit) == size * times for size in range(1, 1025))


def test_the_smallest_size_is_one_byte():
    assert parse_size("1") == parse_size("1B") == 1
    with pytest.raises(QuantityError, match="'0' is not a valid size: it must be greater than 0"):
        parse_size("0")
