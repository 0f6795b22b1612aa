"""Redaction of the environment variables that vLLM records with a compiled model.

Numbers, booleans, nulls and short simple strings (such as versions or mode names) are not changed. Other strings are
replaced, because paths and addresses reveal where the model was built. If the name of a variable contains a word such
as KEY, TOKEN, SECRET or PASSWORD, its value is replaced even if it is a short simple string. The variable is also
reported as a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

REDACTED: Final = "[redacted]"
_SECRET_WORDS: Final = frozenset(
    {
        "AUTH",
        "CREDENTIAL",
        "CREDENTIALS",
        "KEY",
        "KEYS",
        "PASSPHRASE",
        "PASSWD",
        "PASSWORD",
        "SECRET",
        "SECRETS",
        "TOKEN",
    }
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.,:+ -]{0,64}")


def redact(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded environment without secrets, paths and addresses."""
    return {name: REDACTED if _is_secret(name, value) else _redact_value(value) for name, value in environment.items()}


def find_secrets(environment: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sorted names of variables that look like secrets and are set."""
    return tuple(sorted(name for name, value in environment.items() if _is_secret(name, value)))


def _is_secret(name: str, value: Any) -> bool:
    return (
        isinstance(value, str | list | dict) and bool(value) and not _SECRET_WORDS.isdisjoint(name.upper().split("_"))
    )


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else REDACTED
    if isinstance(value, list):
        return [_redact_value(item) for item in value]
    if isinstance(value, dict):
        return redact(value)
    return value
