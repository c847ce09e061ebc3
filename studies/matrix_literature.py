"""Tables IV and VIII of galke2022: matrix embeddings beside the literature, on the soft loss alone, and augmented."""

from typing import Any

from harness.contracts import CheckpointRow, Published, Row, Study
from harness.registry import study
from harness.studies.matrix_settings import GENERAL, MLP, NOTES, RELU, SIZES, SOURCE
from harness.studies.profiles import FROM_CORPUS, of
from harness.studies.told import GALKE

REMARKS = (
    *NOTES,
    *GENERAL,
    RELU,
    "Augmentation as in TinyBERT replaces a word of several pieces by its neighbours among word vectors; without --set "
    "augmentation_vectors=FILE such words stay. Copies (5) are ours; TinyBERT makes 10 to 30 by task, and never "
    "replaces stop words, as ours may.",
    "The rows from the literature mix measures and splits (QQP 70.5 and 71.3 look like F1 on test) and are not "
    "comparable with the paper's own rows.",
    "ELMo is no model of transformers; CBOW, CBOW-FFN and BiLSTM of [15], Hybrid of [19] and Word2rate are other "
    "works' models, of which neither weights nor recipe are part of this project: they stand under Published only, as "
    "does the paper's own teacher, whose place is ours above the rows.",
    'In Table IV "Bidi. Hybrid + MLP (ours)" is not one model: it takes the best of several per task.',
)
BIDIRECTIONAL = "bidirectional_hybrid"
CNN = {"student.head": "cnn", "student.pair_encoding": "joint"}
# Table VII: the best configuration of each task. (student, init, settings, tasks); the quick profile's are ours.
BEST = (
    (BIDIRECTIONAL, "pretrained", MLP, ("cola", "rte", "acceptability")),
    (BIDIRECTIONAL, "random", MLP, ("mnli", "qnli", "entailment")),
    ("cbow", "pretrained", MLP, ("mrpc", "stsb_classes", "paraphrase")),
    ("hybrid", "random", MLP, ("qqp",)),
    ("cmow", "random", CNN, ("sst2", "sentiment")),
    ("cmow", "pretrained", CNN, ("wnli",)),
)


def _ours(name: str, label: str, student: str, init: str, settings: dict[str, str]) -> Row:
    return Row(name, "vanilla_kd", label, label, student=student, init=init, settings=settings)


def _general(head: str, label: str) -> Row:
    own: dict[str, Any] = {"student": BIDIRECTIONAL, "init": "random", "procedure": "general"}
    settings = of("student", head=head, pair_encoding="diffcat")
    return Row(f"general_{head}", "mlm_kd", f"{label}, general", label, mark=FROM_CORPUS, settings=settings, **own)


def _further(name: str, label: str, settings: dict[str, float | str], mark: str) -> tuple[Row, ...]:
    """One row for each best configuration, with cells for its tasks alone."""
    return tuple(
        Row(
            f"{name}_{student}_{init}",
            "vanilla_kd",
            f"{label}: {student.replace('_', ' ')}, {init}",
            {"row": label, "embedding": student, "init": init},
            mark=mark,
            student=student,
            init=init,
            tasks=tasks,
            settings={**best, **settings},
        )
        for student, init, best, tasks in BEST
    )


def _checkpoint(name: str, label: str, model: str, printed: str, reference: bool = False) -> CheckpointRow:
    return CheckpointRow(name, label, model, printed, "fine-tuned here", reference)


study(
    Study(
        name="matrix_literature",
        title="Matrix embeddings beside the literature",
        question="How do distilled matrix embeddings compare with other small and large models?",
        procedure="one_stage",
        rows=(
            _checkpoint("bert_base", "BERT-base", "bert-base-uncased", "BERT-base [11]", reference=True),
            _checkpoint("distilbert", "DistilBERT", "distilbert-base-uncased", "DistilBERT [11]"),
            _checkpoint("mobilebert", "MobileBERT", "google/mobilebert-uncased", "MobileBERT [13]"),
            _checkpoint(
                "tinybert", "TinyBERT (4 layers)", "huawei-noah/TinyBERT_General_4L_312D", "TinyBERT (4 layers) [12]"
            ),
            _checkpoint("minilm6", "MiniLM (6 layers)", "nreimers/MiniLM-L6-H384-uncased", ""),
            _general("linear", "Bidi. Hybrid + Linear"),
            _general("mlp", "Bidi. Hybrid + MLP"),
            _ours("cmow_cnn", "CMOW + CNN (rand. init.)", "cmow", "random", CNN),
            _ours("cmow_cnn_pretrained", "CMOW + CNN (pretrained)", "cmow", "pretrained", CNN),
            _ours("cbow_mlp_pretrained", "CBOW + MLP (pretrained)", "cbow", "pretrained", MLP),
            _ours("hybrid_mlp", "Hybrid + MLP (rand. init.)", "hybrid", "random", MLP),
            _ours("bidirectional_mlp", "Bidi. Hybrid + MLP (rand. init.)", BIDIRECTIONAL, "random", MLP),
            _ours("bidirectional_mlp_pretrained", "Bidi. Hybrid + MLP (pretrained)", BIDIRECTIONAL, "pretrained", MLP),
            *_further(
                "soft_loss",
                "Only soft loss",
                {"vanilla_kd.soft_weight": 1.0},
                "the teacher's signal alone, on the best configuration of each task (Table VII)",
            ),
            *_further(
                "augmented",
                "Data augmentation",
                {"augmentation": "masked_language_model"},
                "training texts augmented as in TinyBERT, on the best configuration of each task (Table VII); words of "
                "several pieces only where augmentation_vectors names a file of word vectors",
            ),
        ),
        students=("cbow", "cmow", "hybrid", BIDIRECTIONAL),
        published=Published(
            ("galke2022_table08_extended_comparison.csv", "galke2022_table04_literature.csv"),
            f"{SOURCE}, Tables VIII and IV",
            notes=REMARKS,
        ),
        told=GALKE,
        profiles=SIZES,
    )
)
