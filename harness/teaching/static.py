"""The teacher's static vectors, made in one pass over its vocabulary and stored for all students of it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness.contracts import Batch, Encoding, Want
from harness.modeling import static_vectors
from harness.modeling.bases import LoadTeacher
from harness.modeling.static_vectors import Vocabulary
from harness.runs import Run
from harness.teaching.masked import weights_of
from harness.teaching.outputs import Encoder
from harness.training import machine
from harness.training.workspace import Workspace, teacher_fingerprint, teacher_tokenizer

FILE = "vectors.safetensors"
BATCH = 512  # entries a teacher call


def static_file(run: Run, workspace: Workspace, load: LoadTeacher) -> Path:
    """The file of the static vectors of the run's teacher, whose model `load` gives where they are not there yet.

    Known by the teacher's weights and tokenizer. The heads of one teacher of several tasks share its encoder, and it.
    """
    if run.learns_from is None:
        raise TypeError(f"a {run.kind} run has no teacher")
    store = workspace.store("static", [weights_of(run.learns_from, workspace), teacher_fingerprint(workspace)])
    with store.held(FILE) as whole:
        if not whole:
            model = load()
            vocabulary = Vocabulary.of(teacher_tokenizer(workspace), model.config.vocab_size)
            static_vectors.write(store.folder / FILE, vocabulary, states(model, vocabulary))
            store.vouch(FILE)
    return store.folder / FILE


@torch.no_grad()
def states(model: PreTrainedModel, vocabulary: Vocabulary) -> Tensor:
    """(N, D) float32: of each entry, read alone, the mean of the last states of all tokens."""
    encoder, last = Encoder(model, exact=True).to(machine.device()).eval(), model.config.num_hidden_layers
    found = []
    for ids in torch.tensor(vocabulary.entries).split(BATCH):
        read = torch.tensor([[*vocabulary.before, entry, *vocabulary.after] for entry in ids.tolist()])  # (B, L)
        read = read.to(machine.device())
        encoding = {"input_ids": read, "attention_mask": torch.ones_like(read)}
        encoding["token_type_ids"] = torch.zeros_like(read)
        batch = Batch(ids, torch.zeros(len(ids)), (Encoding(encoding),))
        outputs = encoder(batch, Want(hidden_states=frozenset({last})))
        found.append(outputs.hidden_states[last].float().mean(1).cpu())
    return torch.cat(found)
