"""Every random number comes from a seed that says what it is for."""

from __future__ import annotations

import hashlib
from typing import Any

from harness.files import canonical


def derive_seed(*parts: Any) -> int:
    """A 63-bit seed from what it is for; the same on every machine and in every process."""
    return int.from_bytes(hashlib.sha256(canonical(parts).encode()).digest()[:8], "big") >> 1
