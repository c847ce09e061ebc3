"""distill-harness: compares objectives for distilling language models.

import harness

result = harness.run("objectives_vs_init", objectives=["att_kl", "vanilla_kd"], out="results")
result.table
"""

from importlib import import_module
from pathlib import Path
from typing import Any

# objectives/, students/, teachers/, studies/ and reports/ are packages of this one: an installation has them in this
# folder, a checkout beside it.
if not Path(__file__).with_name("objectives").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

_LAZY = {  # what `import harness` gives -> where it is: that import stays light
    "run": "harness.notebook.working",
    "plan": "harness.notebook.working",
    "distil": "harness.notebook.working",
    "load": "harness.exporting.opened",
    "load_results": "harness.notebook.working",
    "Results": "harness.notebook.results",
    "UserError": "harness.errors",
}

__all__ = ["Results", "UserError", "__version__", "distil", "load", "load_results", "plan", "run"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("distill-harness")
        except PackageNotFoundError:  # a checkout that is not installed
            return "unknown"
    if name not in _LAZY:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "__version__"})
