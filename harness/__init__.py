"""distill-harness: compares objectives for distilling language models."""

from pathlib import Path

# objectives/, students/, teachers/, studies/ and reports/ are packages of this one: an installation has them in this
# folder, a checkout beside it.
if not Path(__file__).with_name("objectives").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
