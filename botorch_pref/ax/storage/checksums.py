"""Checksums of values, the same before they are stored and after they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any


def checksum(*values: Any) -> str:
    """Checksum of values that JSON can hold.

    Args:
        values: In an order that counts. Of mappings the order does not, and 3 is 3.0:
            stores give back either.

    Returns:
        A SHA-256 digest, in hexadecimal.
    """
    text = json.dumps([_plain(value) for value in values], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(found) for key, found in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(found) for found in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
