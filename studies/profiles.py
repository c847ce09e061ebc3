"""The three sizes of a study: what most have, varied by each work's settings and by each study."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.contracts import Profile

QUICK = Profile("embedded", ("sentiment", "similarity"), ("random",), trials=1, seeds=2)
SMALL = Profile("minilm", ("sst2", "mrpc"), ("random",), trials=1, seeds=2)
PAPER = Profile("bert-base-uncased", ("sst2", "qqp", "mnli", "mrpc"), ("random",), trials=1, seeds=3)
GLUE = ("qnli", "sst2", "mnli", "mrpc", "qqp", "rte", "cola")  # the tasks of wang2023
WIKIPEDIA_AND_BOOKS = "hub:wikipedia+hub:bookcorpus"
# What the works call Adam is AdamW without decay, at a constant rate.
ADAM = {"schedule": "constant", "warmup_ratio": 0.0, "weight_decay": 0.0}
LAZY_ADAM = (
    "Adam leaves the vectors of words that a batch does not hold as they are, and their moments (lazy Adam); as it is "
    "printed it moves all of them in every step."
)
PATIENT_KD = "vanilla_kd+0.1*pkd"  # about 100 of Sun et al. (2019), whose code takes means over layers and width
PATIENT_SETTINGS = (
    "BERT-PKD is trained alike on every task: layers by 0.1, some 100 in its code, and half of the loss soft, at "
    "temperature 2. The work's settings are chosen by task: as released for three layers, temperatures of 5 to 20, "
    "0.2 or 0.7 of a soft loss that is a mean over classes too, and layers by 1 (SST-2), 10 (MRPC), or 100 and 1000."
)
SLOWLY = {"learning_rate": 5e-5}  # of a pretrained transformer among students that start from nothing
FROM_CORPUS = "distilled on the corpus, then trained on the labels without the teacher"
FROM_EVEN_LAYERS = "starts from evenly spread layers of the teacher, the one in print from the first of BERT-base"
SIZE_AND_SPEED = ("millions_without_embeddings", "size_factor", "sentences_per_second", "seconds", "time_factor")


def varied(
    sizes: Mapping[str, Profile],
    tasks: Mapping[str, tuple[str, ...]] | None = None,
    settings: Mapping[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Profile]:
    """The sizes with other tasks in those named, and the settings and changes in all."""
    return {
        size: replace(
            profile,
            tasks=(tasks or {}).get(size, profile.tasks),
            settings={**profile.settings, **(settings or {})},
            **changes,
        )
        for size, profile in sizes.items()
    }


def of(owner: str, settings: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The settings as those of an owner: {"general.epochs": 1}."""
    return {f"{owner}.{name}": value for name, value in {**(settings or {}), **more}.items()}


def measured(teacher: str, *tasks: str, **settings: tuple[Any, Any, Any]) -> dict[str, Profile]:
    """The three sizes of a study that trains nothing: models of random weights. settings: each by size."""
    return {
        size: Profile(teacher, tasks, ("random",), 1, 1, {name: values[i] for name, values in settings.items()})
        for i, size in enumerate(("quick", "small", "paper"))
    }
