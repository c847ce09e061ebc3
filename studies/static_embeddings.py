"""Static embeddings, the modern matrix student, beside what they stand for and what they leave out.

No work's table: the question is that of Model2Vec's users. Rows share a search, its budget and seeds. On the embedded
tasks it is known what decides. Of acceptability and paraphrase both classes have the same words in each sentence, so
that a sum of words stays at chance, whatever its vectors. Entailment has the same two sentences the other way round,
and similarity other words, so that bags of words can tell if they are read apart.
"""

from dataclasses import replace

from harness.contracts import BaselineRow, GainRow, Row, Study, Told
from harness.registry import study
from harness.studies.profiles import PAPER, QUICK, SMALL, of
from harness.studies.told import BERT_TEACHER, OURS

STATIC = "static:teacher"
REAL = ("cola", "rte", "mrpc", "sst2", "qqp", "mnli")  # quick needs no file
FROZEN = {"student.vectors": "frozen"}
GLOVE = (
    "GloVe's vectors of the pieces that are words, added up and never trained; needs the file, or a package that has it"
)
COSINE = "of single sentences alone: of a pair there are two vectors, and the teacher has one"
ORDER = "the static hybrid, whose product of matrices reads words in order, less the same vectors added up"
TUNED = "starts from vectors of the teacher as it was fine-tuned on the task, by all the labels that the teacher had"
JOINT = "reads a pair as one sequence, the others each sentence apart"
# Words are added up or multiplied in each sentence of a pair by itself.
APART = {f"{name}.pair_encoding": "diffcat" for name in ("cbow", "cmow", "hybrid")}
_PAPER = {
    "teacher": "bert-base-uncased",
    "tasks": REAL,
    "seeds": 5,
    "protocol": "published",
    "epochs": 20,
    "patience": 5,
    "learning_rate": (1e-3, 1e-4, 5e-5, 3e-3, 3e-4),
    "student.vector_size": 768,
    "student.matrix_size": 28,
    "student.layers": 2,
    "student.pair_encoding": {"": "diffcat", "cola": "joint", "sst2": "joint"},
}


def _row(name: str, label: str, student: str, init: str, objective: str = "vanilla_kd", **more: object) -> Row:
    return Row(name, objective, label, student=student, init=init, **more)  # type: ignore[arg-type]


study(
    Study(
        name="static_embeddings",
        title="Static embeddings",
        question="How far below a small transformer are static embeddings of the same teacher, and what of it does the "
        "order of words cost?",
        procedure="one_stage",
        rows=(
            _row("frozen", "Static, frozen; labels", "cbow", STATIC, "labels_only", settings=FROZEN, mark=TUNED),
            _row("trained", "Static, trained; labels", "cbow", STATIC, "labels_only", mark=TUNED),
            _row("static_kd", "Static, trained; vanilla KD", "cbow", STATIC),
            _row(
                "static_cosine",
                "Static; vanilla KD + cosine",
                "cbow",
                STATIC,
                "vanilla_kd+cosine",
                mark=COSINE,
                tasks=("acceptability", "cola", "sst2"),
            ),
            _row("cbow", "Random; vanilla KD", "cbow", "random"),
            _row("cmow", "CMOW; vanilla KD", "cmow", "random"),
            _row("hybrid", "Hybrid; vanilla KD", "hybrid", "random"),
            _row("static_hybrid", "Static hybrid; vanilla KD", "hybrid", STATIC),
            _row("transformer", "Transformer; vanilla KD", "transformer", "every", mark=JOINT),
            _row(
                "glove",
                "Summed GloVe; labels",
                "cbow",
                "vectors:glove",
                "labels_only",
                settings={**FROZEN, "student.vector_size": 50},
                tasks=REAL,
                mark=GLOVE,
            ),
            BaselineRow(
                "tfidf",
                "tf-idf + regression",
                "regression",
                "a reference, no student: logistic regression, or ridge regression of a score, on tf-idf of words and "
                "pairs of words; no search",
            ),
            GainRow("start", "Gained by the static start", ("static_kd", "cbow")),
            GainRow("distillation", "Gained by distillation", ("static_kd", "trained")),
            GainRow("order", "Gained by the order of words", ("static_hybrid", "static_kd"), mark=ORDER),
            GainRow("drop", "Lost to the transformer", ("transformer", "static_kd")),
        ),
        students=("cbow", "cmow", "hybrid", "transformer"),
        told=BERT_TEACHER | {name: Told(value, why=OURS) for name, value in _PAPER.items()},
        profiles={
            "quick": replace(
                QUICK,
                tasks=("acceptability", "paraphrase", "entailment", "similarity"),
                inits=(STATIC,),
                trials=3,
                seeds=3,
                settings=(
                    APART
                    | {"epochs": 10, "train_examples": 896, "max_length": 32, "vanilla_kd.temperature": 1.0}
                    | of("student", vector_size=64, matrix_size=8, embedding_dropout=0.0, hidden_dropout=0.1)
                    | {"transformer.layers": 2}
                ),
                search={"learning_rate": (1e-2, 3e-3, 1e-3)},
            ),
            "small": replace(
                SMALL,
                tasks=("rte", "mrpc", "sst2"),
                inits=(STATIC,),
                trials=4,
                seeds=3,
                settings=(
                    APART
                    | {"epochs": 10, "patience": 3}
                    | of("student", vector_size=384, matrix_size=20)  # as wide as the teacher
                    | {"transformer.layers": 2}
                ),
                search={"learning_rate": (1e-3, 1e-4, 3e-3, 3e-4)},
            ),
            "paper": replace(
                PAPER,
                tasks=REAL,
                inits=(STATIC,),
                trials=5,
                seeds=5,
                settings=(
                    APART
                    | {"protocol": "published", "epochs": 20, "patience": 5}
                    | of("student", vector_size=768, matrix_size=28)
                    | {"transformer.layers": 2}
                ),
                search={"learning_rate": (1e-3, 1e-4, 5e-5, 3e-3, 3e-4)},
            ),
        },
    )
)
