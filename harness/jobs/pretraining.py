"""Masked-language-model pre-training of a teacher that has no weights yet (Devlin et al., 2019, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase, get_scheduler

from harness.data import embedded
from harness.runs import PretrainingRun
from harness.runs.settings import Settings
from harness.runs.told import Entry, Performed
from harness.seeds import derive_seed
from harness.training import machine
from harness.training.loop import Diverged
from harness.training.weights import save
from harness.training.work import Work
from harness.training.workspace import teacher_source


def mask_tokens(
    tokens: Tensor, special: Tensor, mask_token: int, vocabulary: int, probability: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Choose tokens to predict: of those, 80% become the mask, 10% a random token, 10% stay.

    tokens: (B, L) ids; special: (B, L) bool, never chosen. Returns (inputs, targets), (B, L) each, targets -100
    where nothing is predicted.
    """
    chosen = (torch.rand(tokens.shape, generator=generator) < probability) & ~special
    how = torch.rand(tokens.shape, generator=generator)
    random = torch.randint(vocabulary, tokens.shape, generator=generator)
    inputs = torch.where(chosen & (how < 0.8), mask_token, tokens)
    inputs = torch.where(chosen & (how >= 0.8) & (how < 0.9), random, inputs)
    return inputs, tokens.masked_fill(~chosen, -100)


def pretraining(run: PretrainingRun, work: Work) -> Performed:
    """Train the teacher's masked language model on the grammar's corpus for settings["steps"] steps; keep its weights.

    Raises Diverged when a loss is not finite.
    """
    machine.seed(derive_seed("weights", run.seed))
    settings, source = run.settings, teacher_source(work.workspace.teacher)
    model = source.masked_language_model()
    nn.Module.to(model, machine.device())
    generator = torch.Generator().manual_seed(run.seed or 0)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings["learning_rate"], fused=True, weight_decay=settings["weight_decay"]
    )
    steps = settings["steps"]
    scheduler = get_scheduler("linear", optimiser, int(settings["warmup_ratio"] * steps), steps)
    curve: list[Entry] = []
    total = 0.0
    model.train()
    for step, (part, targets) in enumerate(_batches(source.tokenizer(), settings, generator), start=1):
        with work.clock:
            logits = model(**{name: tensor.to(model.device) for name, tensor in part.items()}).logits
            # (B L, V), (B L)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten().to(model.device))
            if not torch.isfinite(loss):
                raise Diverged(f"the masked-language-model loss became {loss.item()} at step {step}")
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        scheduler.step()
        total += loss.item()
        if step % 100 == 0 or step == steps:
            since = step - (curve[-1]["epoch"] if curve else 0)
            curve.append({"stage": "pretraining", "epoch": step, "loss": total / since, "selection": None})
            total = 0.0
            work.tell(curve[-1])
    save(model, work.workspace.run / "weights")
    return {"curve": curve}, None


def _batches(
    tokenizer: PreTrainedTokenizerBase, settings: Settings, generator: torch.Generator
) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """(the model's inputs, its targets) of every step; what a batch draws is drawn when it is asked for."""
    texts = embedded.corpus(settings["examples"])
    encoded = tokenizer(
        [text if len(text) == 2 else text[0] for text in texts],
        truncation=True,
        max_length=settings["max_length"],
        padding="max_length",
        padding_side="right",
        return_tensors="pt",
        return_special_tokens_mask=True,
    )
    for _ in range(settings["steps"]):
        rows = torch.randint(len(texts), (settings["batch_size"],), generator=generator)
        longest = int(encoded["attention_mask"][rows].sum(1).max())
        part = {name: tensor[rows, :longest] for name, tensor in encoded.items()}
        special = part.pop("special_tokens_mask").bool()
        part["input_ids"], targets = mask_tokens(
            part["input_ids"], special, tokenizer.mask_token_id, len(tokenizer), settings["mask_probability"], generator
        )
        yield part, targets
