"""Table V of galke2022: parameters and encoding speed, of models with random weights."""

from harness.contracts import ModelRow, Published, Study
from harness.registry import study
from harness.studies.matrix_settings import SOURCE
from harness.studies.profiles import measured
from harness.studies.told import GALKE_SPEED

REMARKS = (
    "The published speeds were measured on an NVIDIA A100-SXM4-40GB; a processor is another machine for ratios too.",
    "The bidirectional hybrid has 36.6M parameters in its embeddings, to which a small head adds what is printed; with "
    "the MLP head of joint encoding, as here, it has 37.8M, with that of DiffCat 40.2M (Table XIII).",
    "ELMo is no model of transformers, and not built here.",
)
HYBRID = "bidirectional_hybrid"


def _checkpoint(name: str, label: str, checkpoint: str) -> ModelRow:
    return ModelRow(name, label, label, checkpoint=checkpoint)


study(
    Study(
        name="size_and_speed",
        title="Size and encoding speed",
        question="How large is a matrix embedding beside pretrained transformers, and how fast does it encode?",
        procedure="speed",
        rows=(
            _checkpoint("bert_base", "BERT-base", "bert-base-uncased"),
            _checkpoint("distilbert", "DistilBERT-base", "distilbert-base-uncased"),
            _checkpoint("mobilebert", "MobileBERT", "google/mobilebert-uncased"),
            _checkpoint("tinybert", "TinyBERT (4 layer)", "huawei-noah/TinyBERT_General_4L_312D"),
            ModelRow(HYBRID, "Bidirectional hybrid", "Bidi. Hyrid", HYBRID, {"student.head": "mlp"}),
        ),
        students=(HYBRID,),
        metrics={"speed": ("sentences_per_second", "speed_ratio", "millions_of_parameters")},
        published=Published(
            ("galke2022_table05_speed.csv",),
            f"{SOURCE}, Table V",
            quotients={"speed_ratio": "BERT-base"},
            notes=REMARKS,
        ),
        told=GALKE_SPEED,
        profiles=measured("bert-base-uncased", "speed", batch_size=(8, 256, 256), rounds=(2, 2, 1024)),
    )
)
