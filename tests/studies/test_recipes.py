"""The recipes of the works in the paper's size, and whole programs that reach what no quick profile does."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaTokenizerFast

from harness.errors import UserError
from harness.planning.planned import Plan
from harness.planning.recipe import budget
from harness.runs import CorpusDistillationRun, Run, TeacherRun
from harness.runs.settings import Settings
from tests.conftest import SUBJECTS
from tests.results import records
from tests.search.builders import of_kind
from tests.studies.builders import planned

SHORT = ("epochs=1", "train_examples=32", "teacher.epochs=1", "max_length=16")
LSTM = ("student.hidden_units=4", "student.head_units=4", "student.embedding_size=6")
MATRIX = ("student.matrix_size=4", "student.vector_size=16")


def first(plan: Plan, kind: type[Run]) -> dict[str, Settings]:
    """The settings of the runs of a kind that cells wait for."""
    return {run: made.settings for run, made in of_kind(plan, kind).items()}


# ---------------------------------------------------------------- as the works tell it


def test_students_of_wang2023_are_trained_as_roberta_is() -> None:
    """Section 4 names Liu et al. (2019); QQP warms up over a quarter, as released."""
    plan = planned("objectives_vs_init", inits=["every"])
    liu = {"weight_decay": 0.1, "adam_beta2": 0.98, "adam_epsilon": 1e-6, "gradient_clip": 0.0, "max_length": 512}
    for cell in plan.cells:
        settings = cell.run.settings
        assert liu.items() <= settings.items()
        assert settings["warmup_ratio"] == (0.25 if cell.task == "qqp" else 0.06)
    teachers = first(plan, TeacherRun)
    assert len(teachers) == 7 and all(liu.items() <= settings.items() for settings in teachers.values())


@pytest.mark.parametrize(("sampler", "said"), [("random", "drawn at random"), ("tpe", "proposed by TPE")])
def test_a_row_that_searches_nothing_does_not_say_what_draws_for_others(sampler: str, said: str) -> None:
    """The first row is the teacher's own, of a single trial."""
    plan = planned("sra", f"sampler={sampler}", profile="quick", corpus="embedded", trials=2)
    assert budget(plan).startswith(f"1 to 2 trials {said}")


def test_general_distillation_of_galke2022() -> None:
    """Appendix B: no warm-up. What the text does not say is as released."""
    ((_, settings),) = first(planned("general_vs_task_specific"), CorpusDistillationRun).items()
    wanted = {"warmup_ratio": 0.0, "weight_decay": 0.0, "adam_beta2": 0.98, "adam_epsilon": 1e-6, "gradient_clip": 5.0}
    assert {**wanted, "batch_size": 128, "learning_rate": 5e-4, "pack": True}.items() <= settings.items()


def test_dropout_of_a_distillation_is_set_apart() -> None:
    name, own = "general.student.hidden_dropout", "bidirectional_hybrid.hidden_dropout"

    def plan(*settings: str) -> Plan:
        return planned("general_vs_task_specific", *settings, profile="quick", tasks=["sentiment"])

    before, after = plan(), plan(f"{name}=0.4")
    ((run, settings),) = first(after, CorpusDistillationRun).items()
    assert settings[own] == 0.4 and run not in first(before, CorpusDistillationRun)
    assert {cell.run.settings[own] for cell in after.cells} == {0.1}
    ids = [{cell.row: cell.id for cell in made.cells} for made in (before, after)]
    assert {row for row in ids[0] if ids[0][row] == ids[1][row]} == {"task_specific"}
    assert first(plan(f"{name}=0.1"), CorpusDistillationRun) == first(before, CorpusDistillationRun)
    assert plan(f"general.{own}=0.4").first == after.first
    for wrong, said in (
        ("general.student.matrix_size=4", "unknown setting 'general.student.matrix_size'"),
        (f"{name}=2", f"{name} must be between 0.0 and 0.9, not 2.0"),
    ):
        with pytest.raises(UserError) as error:
            plan(wrong)
        assert str(error.value).startswith(said)
    with pytest.raises(UserError, match=f"setting '{name}' has no effect"):
        planned("bidirection", f"{name}=0.4", profile="quick", tasks=["sentiment"])


def test_word_vectors_join_the_augmentation_of_rows_that_have_it(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 1 0\nfine 1 0.1\n")

    def augmentations(study: str, *settings: str) -> dict[str, tuple[str, str]]:
        cells = planned(study, *settings, profile="quick", tasks=["sentiment"]).cells
        return {cell.row: (cell.id, cell.run.settings["augmentation"]) for cell in cells}

    before = augmentations("matrix_literature")
    after = augmentations("matrix_literature", f"augmentation_vectors={vectors}")
    changed = {row for row in before if before[row] != after[row]}
    assert changed == {"augmented_cmow_random"} and after[changed.pop()][1].startswith("masked_language_model:")
    spelled = augmentations("bidirection", f"augmentation=masked_language_model:{vectors}")
    assert spelled == augmentations(
        "bidirection", "augmentation=masked_language_model", f"augmentation_vectors={vectors}"
    )
    with pytest.raises(UserError, match="setting 'augmentation_vectors' has no effect"):
        augmentations("bidirection", f"augmentation_vectors={vectors}")
    with pytest.raises(UserError, match="file nowhere.txt does not exist"):
        augmentations("matrix_literature", "augmentation_vectors=nowhere.txt")
    (vectors.parent / "folder").mkdir(exist_ok=True)
    with pytest.raises(UserError, match="folder does not exist$"):  # as a file: it is not told to be meant itself
        augmentations("matrix_literature", f"augmentation_vectors={vectors.parent / 'folder'}")


# ---------------------------------------------------------------- whole programs


@pytest.fixture(scope="module")
def data(glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small files as SST-2, as MNLI with its two dev splits, and as STS-B."""
    folder = tmp_path_factory.mktemp("more")
    (folder / "SST-2").symlink_to(glue / "SST-2")
    for part, names in (("train", ("train",)), ("dev", ("dev_matched", "dev_mismatched"))):
        pairs = [line.split("\t") for line in (glue / "MRPC" / f"{part}.tsv").read_text().splitlines()[1:]]
        kinds = ("contradiction", "entailment", "neutral")
        lines = [f"{a}\t{b}\t{kinds[int(same) + n % 2]}" for n, (same, _, _, a, b) in enumerate(pairs)]
        for n, name in enumerate(names):
            write(folder / "MNLI" / f"{name}.tsv", "sentence1\tsentence2\tgold_label", lines[10 * n :])
        scores = [f"{a}\t{b}\t{n % 26 / 5}" for n, (_, _, _, a, b) in enumerate(pairs)]
        write(folder / "STS-B" / f"{part}.tsv", "sentence1\tsentence2\tscore", scores)
    return folder


def write(path: Path, header: str, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa of 2 layers, 16 wide, that reads letters."""
    folder = tmp_path_factory.mktemp("roberta")
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", ".", *string.ascii_lowercase]
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tokens), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=34, type_vocab_size=1,
    )  # fmt: skip
    RobertaForMaskedLM(config).save_pretrained(folder)
    RobertaTokenizerFast(vocab={t: i for i, t in enumerate(tokens)}, merges=[]).save_pretrained(folder)
    return folder


def test_adadelta_trains_one_of_two_channels_of_a_file_of_vectors(run: Any, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {n} 0 0 1 0 0\n" for n, word in enumerate(SUBJECTS)))
    words = ("--tasks", "sst2", "--objectives", "distilled", "--inits", f"vectors:{vectors}")
    own = ("student.channels=frozen_and_trained", "optimiser=adadelta", "learning_rate=1.0")
    run("distilled_bilstm", *words, "--set", *LSTM, *SHORT, *own)
    (record,) = records(tmp_path / "out", "student").values()
    assert record["initialisation"]["vectors_found"] == len(SUBJECTS)
    assert record["specification"]["settings"]["optimiser"] == "adadelta" and 0 <= record["metrics"]["accuracy"] <= 1


def test_a_roberta_teaches_a_task_with_two_dev_splits(run: Any, data: Path, roberta: Path, tmp_path: Path) -> None:
    words = ("--tasks", "mnli", "--objectives", "att_kl", "--inits", "every")
    own = ("transformer.layers=1", "adam_beta2=0.98", "adam_epsilon=1e-6", "gradient_clip=0", "schedule=polynomial")
    run("objectives_vs_init", *words, "--set", *SHORT, *own, data=data, teacher=roberta)
    for record in records(tmp_path / "out").values():
        assert {"accuracy", "mismatched_accuracy"} <= record["metrics"].keys()
    (teacher,) = records(tmp_path / "out", "teacher").values()
    assert teacher["specification"]["settings"]["weight_decay"] == 0.1  # RoBERTa's own recipe


def test_classes_from_scores_after_micro_batches_of_packed_pieces(run: Any, data: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    sentences = [line.rpartition("\t")[0] for line in (data / "SST-2" / "train.tsv").read_text().splitlines()[1:]]
    corpus.write_text("\n".join(sentences))
    words = ("--tasks", "stsb_classes", "--objectives", "task_specific_pretrained", "--corpus", corpus)
    text = ("pack=true", "micro_batch=3", "batch_size=8", "max_length=34", "student.hidden_dropout=0.4")
    settings = (*MATRIX, *SHORT, *(f"general.{setting}" for setting in text))
    run("general_vs_task_specific", *words, "--set", *settings, data=data)
    (general,), (record,) = (records(tmp_path / "out", kind).values() for kind in ("general", "student"))
    assert general["pieces"] < len(sentences) / 2 and general["tokens"] / general["pieces"] > 24  # of at most 34
    assert {"pearson", "spearman"} <= record["metrics"].keys()
    own = "bidirectional_hybrid.hidden_dropout"
    assert [r["specification"]["settings"][own] for r in (general, record)] == [0.4, 0.1]
