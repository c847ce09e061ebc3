"""Table V of galke2022: parameters and encoding speed, of models with random weights."""

from harness.contracts import Profile, Published, Row, Study
from harness.registry import study
from studies.told import GALKE_SPEED


def _checkpoint(name: str, label: str, checkpoint: str) -> Row:
    return Row(name, "", label, published=label, checkpoint=checkpoint)


def _profile(batch: int, rounds: int, seeds: int) -> Profile:
    settings = {"batch_size": batch, "rounds": rounds}
    return Profile("bert-base-uncased", ("speed",), ("random",), trials=1, seeds=seeds, settings=settings)


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
            Row(
                "bidirectional_hybrid",
                "",
                "Bidirectional hybrid",
                published="Bidi. Hyrid",
                student="bidirectional_hybrid",
                settings={"student.head": "mlp"},
            ),
        ),
        students=("bidirectional_hybrid",),
        metrics={"speed": ("sentences_per_second", "speed_ratio", "millions_of_parameters")},
        published=Published(
            files=("galke2022_table05_speed.csv",),
            source="Galke et al., Matrix Embeddings, Table V",
            row_column="row",
            task_column="",
            value_columns={"sentences_per_second": "value", "millions_of_parameters": "parameters_millions"},
            quotients={"speed_ratio": ("value", "BERT-base")},
            notes=(
                "The published speeds were measured on an NVIDIA A100-SXM4-40GB; a processor is another machine for "
                "ratios too.",
                "The bidirectional hybrid has 36.6M parameters in its embeddings, to which a small head adds what is "
                "printed; with the MLP head of joint encoding, as here, it has 37.8M, with that of DiffCat 40.2M "
                "(Table XIII).",
                "ELMo is no model of transformers, and not built here.",
            ),
        ),
        told=GALKE_SPEED,
        profiles={"quick": _profile(8, 2, 1), "small": _profile(256, 2, 1), "paper": _profile(256, 1024, 1)},
    )
)
