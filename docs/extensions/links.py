"""Whether a built site leads anywhere: python docs/extensions/links.py build/site.

Every relative address of a page exists, with its anchor; what lies elsewhere is https and only ever a link; and nothing
that a browser fetches by itself (scripts, styles, images, fonts) is remote.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src"}
REMOTE_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")


class Page(HTMLParser):
    """links: (tag, address); anchors: what may stand behind #."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if (address := attributes.get(LINKS.get(tag, ""))) is not None:
            self.links.append((tag, address))


def faults(site):
    """What is wrong, a sentence each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for tag, address in page.links:
            parts = urlsplit(address)
            where = f"{path.relative_to(site)}: {address}"
            if parts.scheme or parts.netloc:
                if tag != "a" and parts.scheme != "data":
                    yield f"{where} is fetched from elsewhere"
                elif tag == "a" and not (parts.scheme == "https" and "." in parts.netloc) and parts.scheme != "mailto":
                    yield f"{where} is no https address"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where} does not exist"
            elif tag == "a" and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where} has no such place"
    for style in sorted(site.rglob("*.css")):
        if REMOTE_STYLE.search(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)} takes something from elsewhere"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1]).resolve()))
    sys.exit("\n".join(found) if found else 0)
