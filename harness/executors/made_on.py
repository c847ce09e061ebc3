"""Which machine made a run, by which state of this distribution, and when: its record tells it, and it is no part of a
run.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import harness
from harness.plugin_code import ROOT


def made_on() -> dict[str, str]:
    """machine: its processor or accelerator; harness: the version, and of a checkout the commit; ended: now, in UTC."""
    return {
        "machine": _machine(),
        "harness": " ".join(filter(None, (harness.__version__, commit()))),
        "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _machine() -> str:
    import torch

    own = f"{processor()}, {os.cpu_count()} cores, {platform.system()}"
    return f"{torch.cuda.get_device_name()}; {own}" if torch.cuda.is_available() else own


def processor() -> str:
    """What this machine's processor is called."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
    except OSError:  # not Linux
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


@functools.cache
def commit() -> str:
    """The commit, "with changes" where files differ from it; "" where there is no checkout, or no git."""
    if not (ROOT / ".git").exists():
        return ""
    asked = (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
    try:
        head, changes = (
            subprocess.run(("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=True, timeout=10)
            for words in asked
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"commit {head.stdout.strip()}{' with changes' if changes.stdout.strip() else ''}"
