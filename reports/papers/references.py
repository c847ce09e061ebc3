"""The works that a report cites, from `references.bib`."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files


@dataclass(frozen=True)
class Reference:
    """An entry. names: what it stands for beside its key, as "task:cola", with wildcards."""

    key: str
    text: str
    names: tuple[str, ...]


@functools.cache
def references() -> dict[str, Reference]:
    """Every entry, by its key."""
    text = (files("harness.reports.papers") / "references.bib").read_text(encoding="utf-8")
    found = {}
    for entry in re.findall(r"^@\w+\{.*?^\}$", text, re.MULTILINE | re.DOTALL):
        key = re.match(r"@\w+\{([^,]+),", entry)[1]  # type: ignore[index]
        names = re.search(r"^  keywords *= \{(.*?)\},\n", entry, re.MULTILINE | re.DOTALL)
        told = tuple(name.strip() for name in names[1].split(",")) if names else ()
        found[key] = Reference(key, entry.replace(names[0], "") if names else entry, told)
    return found


def key_of(work: str) -> str:
    """The key of a work as docstrings name it: "hinton2015" of "Hinton et al. (2015)"."""
    return re.sub(r"^([\w'-]+).*?(\d{4}).*$", lambda m: (m[1] + m[2]).lower(), work)


@dataclass
class Citations:
    """What a text cites. used: keys, in the order in which they were first cited; unknown: works without an entry."""

    used: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def cite(self, *names: str) -> str:
        """ " [@wang2023; @liu2020]" of works, and of things such as "task:cola"; "" where there is no entry."""
        keys: dict[str, None] = {}
        for name in names:
            if ":" in name:
                keys |= {r.key: None for r in references().values() if any(fnmatchcase(name, n) for n in r.names)}
            elif key_of(name) in references():
                keys[key_of(name)] = None
            else:
                self.unknown[name] = None
        self.used |= keys
        return f" [{'; '.join(f'@{key}' for key in keys)}]" if keys else ""

    def bibtex(self) -> str:
        """The entries of what was cited."""
        return "\n\n".join(references()[key].text for key in self.used)
