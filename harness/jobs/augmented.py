"""The augmented training texts of a run: made once, kept in the cache, shared by every run that asks for the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import nn

from harness.data.augmentation import MaskedProposals, Replacer, SameTag, VectorNeighbours, augment, labels_of, words_of
from harness.data.sources import Split
from harness.errors import UserError
from harness.files import digest
from harness.modeling.bases import Teacher
from harness.runs import Run, as_json
from harness.runs.settings import MASKED, VECTORS
from harness.teaching.masked import load_masked_teacher, weights_of
from harness.training import machine
from harness.training.workspace import Workspace, teacher_fingerprint

MASKING, WITH_TAGS = "masking", "masking+pos"


def check(value: str) -> None:
    """Raise UserError unless `value` is an augmentation."""
    kind, _, file = value.partition(":")
    named = ("none", MASKING, WITH_TAGS, MASKED)
    if value not in named and not (kind in (MASKED, VECTORS) and file):
        ways = f"{', '.join(named)}, {VECTORS}:FILE or {MASKED}:FILE with a file of word vectors"
        raise UserError(f"augmentation must be {ways}, not {value!r}")


def augmented(split: Split, run: Run, workspace: Workspace, source: Teacher) -> Split:
    """The examples of `split`, then those made of them as the run's settings say."""
    settings = run.settings
    value, copies, probability = (settings[f"augmentation{part}"] for part in ("", "_copies", "_probability"))
    texts = [split.text_a, split.text_b, labels_of(split)]
    who = run.replaces_words
    # of an ensemble its members' code too, which the cache does not tell apart
    model = [as_json(who), weights_of(who, workspace), teacher_fingerprint(workspace)] if who else []
    key = [value, copies, probability, model, digest(texts)]
    store = workspace.store("augmented", key)
    with store.held() as whole:
        if not whole:
            replacer = _replacer(value, split, run, workspace, source)
            made = augment(split, replacer, copies, probability, 0, masking=value in (MASKING, WITH_TAGS))
            store.vouch(first=made.text_a, second=made.text_b, labels=labels_of(made))
    told = store.told
    return Split(split.name, told["first"], told["second"], np.array(told["labels"], split.labels.dtype))


def _replacer(value: str, split: Split, run: Run, workspace: Workspace, source: Teacher) -> Replacer | None:
    if value in (MASKING, WITH_TAGS):
        return SameTag(split) if value == WITH_TAGS else None
    kind, _, file = value.partition(":")
    vectors = VectorNeighbours(Path(workspace.files[file]), words_of(split)) if file else None
    if kind == VECTORS and vectors is not None:
        return vectors
    model = load_masked_teacher(run.replaces_words, workspace)
    nn.Module.to(model, machine.device())
    return MaskedProposals(model, source.tokenizer(), others=vectors)
