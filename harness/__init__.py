"""distill-harness: compares objectives for distilling language models."""

from importlib import import_module
from pathlib import Path
from typing import Any

# objectives/, students/, teachers/, studies/ and reports/ are packages of this one: an installation has them in this
# folder, a checkout beside it.
if not Path(__file__).with_name("objectives").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

_LAZY = {"load": "harness.exporting.opened"}  # what `import harness` gives -> where it is: that import stays light


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
