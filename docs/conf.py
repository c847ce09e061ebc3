"""How the documentation is built: `make docs` writes build/site."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).with_name("extensions"))]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

project = "distill-harness"
author = "The distill-harness authors"
copyright = author
extensions = ["myst_parser", "mathml", "catalogue"]
exclude_patterns = ["extensions"]
html_theme = "furo"
html_title = "distill-harness"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
highlight_language = "text"
smartquotes = False  # --flags are two hyphens
nitpicky = True
