"""The command `convert`: a teacher of another library as a folder in Hugging Face's format."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from harness import registry
from harness.errors import unknown
from harness.files import check_new_folder


def convert(options: Namespace) -> int:
    """Write the folder, whole or not at all, and print where it is.

    Raises UserError for a folder that is taken or cannot be written, and what the teacher raises.
    """
    folder = Path(options.to).expanduser().resolve()
    check_new_folder(folder, options.to)
    for path in options.plugin:
        registry.load_file(path)
    name, colon, argument = options.teacher.partition(":")
    if name not in (teachers := registry.TEACHERS.names()):
        if colon and not Path(options.teacher).exists():  # no name on the hub has one
            raise unknown("teacher", name, teachers)
        name, argument = registry.HUB, options.teacher
    source = registry.TEACHERS.get(name)(argument)
    import transformers

    from harness.training.weights import whole_folder

    transformers.logging.disable_progress_bar()
    with whole_folder(folder, new=True) as temporary:
        source.convert(temporary)
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    print(f"{options.teacher} is now a {kind} in {options.to}: --teacher {options.to} takes it")
    return 0
