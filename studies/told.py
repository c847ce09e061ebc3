"""What the texts of the four works tell of their settings, and what the studies' profiles `paper` have, side by side.

`harness plan --profile paper --explain` shows it. A setting whose value changes in a profile has to change here too.
"""

from collections.abc import Mapping
from typing import Any

from harness.contracts import Told
from harness.studies.profiles import GLUE, WIKIPEDIA_AND_BOOKS, of

RELEASED = "that of the released implementation"
OURS = "ours"
ONE_SIDE = "the scores printed are of dev, which chooses too"
DEVLIN = "BERT's own recipe for GLUE (Devlin et al., 2019, appendix A.3)"
LIU_2019 = "recommended by Liu et al. (2019), whom the text names"
ADAM = "what the works call Adam is AdamW without decay"
A_ROW_A_SENTENCE = "the hub's BookCorpus is a sentence a row; ours"


def _alike(section: str, why: str, ours: Mapping[str, Any]) -> dict[str, Told]:
    """Several settings of which the same is told."""
    return {name: Told(value, section, why=why) for name, value in ours.items()}


# BERT as a teacher, fine-tuned here.
BERT_TEACHER = {
    **_alike("", DEVLIN, of("teacher", learning_rate=3e-5, warmup_ratio=0.1, batch_size=32)),
    "teacher.epochs": Told({"": 3, "mnli": 2, "qqp": 2, "qnli": 2, "qnli_ranking": 2, "sst2": 2}, why=DEVLIN),
    "teacher.weight_decay": Told(0.01, why="BERT's own (Devlin et al., 2019, appendix A.2)"),
}

# ---------------------------------------------------------------- wang2023, How to Distill your BERT

_SETUP = "section 4"
_TABLE_10 = "Liu et al. (2019), table 10"
_CUSTOMARY = "customary; the released {} given on a command line"
_BATCHES = {"": 32, "mrpc": 16, "rte": 16, "cola": 16}

WANG_TASK_SPECIFIC = {
    **_alike(_SETUP, "", {"teacher": "roberta-base", "student.layers": 3}),
    "tasks": Told(GLUE, _SETUP),
    "inits": Told(
        ("every", "first", "last", "1,8,12", "random:embeddings"),
        "caption of Table 1",
        says="every 4th layer of the teacher",
        why="the others ask the second question: --inits every is the published table",
    ),
    "seeds": Told(4, "caption of Table 1"),
    "protocol": Told("published", "captions of Tables 1 and 2", why=ONE_SIDE),
    "epochs": Told(10, _SETUP, why="of each of the two stages"),
    **_alike(_SETUP, f"{LIU_2019}; {RELEASED}", {"learning_rate": {"": 1e-5, "rte": 2e-5}, "batch_size": _BATCHES}),
    "warmup_ratio": Told({"": 0.06, "qqp": 0.25}, _SETUP, says="0.06, by Liu et al. (2019)", why="QQP as released"),
    **_alike(_SETUP, LIU_2019, {"weight_decay": 0.1, "adam_beta2": 0.98, "adam_epsilon": 1e-6}),
    "gradient_clip": Told(0.0, _SETUP, why=f"none: {LIU_2019}"),
    **_alike("", RELEASED, {"schedule": "polynomial", "max_length": 512, "vanilla_kd.soft_weight": 0.5}),
    "vanilla_kd.temperature": Told(2.0, why=f"the text names one without its value; {RELEASED}"),
    "hid_cls_contrast.negatives": Told(100, why=_CUSTOMARY.format("ones were")),
    "hid_cls_contrast.width": Told(128, why=_CUSTOMARY.format("one was")),
    "teacher.learning_rate": Told(2e-5, why=f"{_TABLE_10}; the text gives no settings"),
    **_alike("", _TABLE_10, of("teacher", batch_size=_BATCHES, epochs=10, weight_decay=0.1)),
    **_alike("", "Liu et al. (2019)", of("teacher", adam_beta2=0.98, adam_epsilon=1e-6)),
    "teacher.gradient_clip": Told(0.0, why="none: Liu et al. (2019)"),
}

WANG_TASK_AGNOSTIC = {
    **BERT_TEACHER,
    **_alike(_SETUP, "", {"teacher": "bert-base-uncased", "tasks": GLUE, "corpus": WIKIPEDIA_AND_BOOKS}),
    "inits": Told("random", "caption of Table 2"),
    "seeds": Told(1, "caption of Table 2", why="the best of the grid, one run of each setting"),
    "protocol": Told("published", "captions of Tables 1 and 2", why=ONE_SIDE),
    **_alike(_SETUP, "", of("general", steps=100_000, batch_size=1024, learning_rate=5e-4, max_length=128)),
    "general.transferred_layers": Told(("last", "mapped"), _SETUP, why="the last wherever layers are compared"),
    **_alike("", RELEASED, of("general", warmup_ratio=0.06, weight_decay=0.01, adam_beta2=0.98)),
    "general.pack": Told(True, why=A_ROW_A_SENTENCE),
    **_alike("", OURS, {"epochs": 3, "general.precision": "bfloat16", "general.mlm_kd.soft_weight": 0.5}),
    **_alike(_SETUP, "", {"student.layers": 6, "batch_size": (16, 32), "learning_rate": (1e-5, 3e-5, 5e-5, 8e-5)}),
}

# ---------------------------------------------------------------- galke2022, Matrix Embeddings

_DROPOUT = "section III-A and Table VI"

GALKE = {
    **BERT_TEACHER,
    "teacher": Told(
        "bert-base-uncased", "sections IV-A and IV-B",
        says="BERT-base; on the tasks, checkpoints of it that others had fine-tuned",
        why="fine-tuned here, on every task",
    ),
    "tasks": Told(
        ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb_classes", "wnli"), "section IV-C",
        why="STS-B cast to classes, as section IV-B says",
    ),
    "protocol": Told("published", "section IV-B", why="chosen by the task's measure on dev"),
    **_alike("", "the number is lost in the text at hand; ours", {"seeds": 3, "epochs": 20, "patience": 5}),
    "learning_rate": Told((1e-3, 5e-4, 1e-4, 5e-5, 1e-5, 5e-6), "Table VI"),
    "student.hidden_dropout": Told(0.2, _DROPOUT, says="0.2 during pretraining", why="on the tasks too"),
    "student.embedding_dropout": Told(0.1, _DROPOUT, says="0 or 0.1 during pretraining", why="on the tasks too"),
    **_alike("appendix B", "", {"schedule": "linear", "warmup_ratio": 0.0, "general.warmup_ratio": 0.0}),
    "batch_size": Told(32, why="section IV-B says only that sizes fit the training data; ours"),
    "vanilla_kd.temperature": Told(1.0, "section IV-B"),
    "vanilla_kd.soft_weight": Told(0.5, "section IV-B", why="equal weights"),
    "corpus": Told(WIKIPEDIA_AND_BOOKS, "section IV-A"),
    "general.mlm_kd.soft_weight": Told(0.5, "section IV-A", why="equal weights"),
    **_alike("", OURS, of("general", epochs=1, max_length=128)),
    "general.batch_size": Told(128, "Table VI", why="one of its sizes"),
    "general.learning_rate": Told(5e-4, "Table VI", says="the best of 1e-3, 5e-4, 1e-4, 5e-5 and 1e-5", why=RELEASED),
    **_alike("", RELEASED, of("general", weight_decay=0.0, adam_beta2=0.98, adam_epsilon=1e-6, gradient_clip=5.0)),
    "general.pack": Told(True, why=A_ROW_A_SENTENCE),
}  # fmt: skip
GALKE_HEADS = {**GALKE, "inits": Told(("random", "pretrained"), "Table VI")}
_SEARCHED = of("student", pair_encoding=("diffcat", "joint"), head=("mlp", "linear", "cnn", "bilstm"))
GALKE_SEARCH = {**GALKE_HEADS, **_alike("Table VI", "", _SEARCHED)}
GALKE_SPEED = _alike("section V-E", "", {"batch_size": 256, "rounds": 1024, "max_length": 64})

# ---------------------------------------------------------------- wu2020, Sentence Representation Approximation

_TRAINING = "section 4.3"

WU_KD_TEACHER = Told(
    "bert-base-uncased", "section 5.3", says="BERT-large, of KD; BERT-base of SRA", why="one teacher for all"
)
WU = {
    **BERT_TEACHER,
    **_alike(_TRAINING, "", {"teacher": "bert-base-uncased", "inits": "vectors:glove.840B.300d.txt"}),
    "tasks": Told(("sst2", "qqp", "mnli", "mrpc"), "section 4.1"),
    "protocol": Told("published", _TRAINING, why="rates are chosen on the validation set"),
    **_alike("section 3.1", "", {"corpus": "hub:wikipedia", "student.projection": "teacher_width"}),
    **_alike(_TRAINING, "", of("student", hidden_units=512, head_units=256)),
    "learning_rate": Told((2e-4, 3e-4, 5e-4, 1e-3), _TRAINING),
    **_alike(_TRAINING, ADAM, {"weight_decay": 0.0, "general.weight_decay": 0.0}),
    **_alike("", OURS, {"seeds": 3, "schedule": "constant", "warmup_ratio": 0.0}),
    **_alike("", OURS, {"epochs": 10, "batch_size": 64, "patience": 3}),
    "augmentation_copies": Told(
        {"sst2": 17, "mrpc": 223, "": 10}, _TRAINING,
        why="with the examples and without repeats 800,000 of SST-2 and MRPC; 10 of QQP and MNLI as in liu2020",
    ),
    "augmentation_probability": Told(0.1, why="that of liu2020"),
    "train_examples": Told(0, why="all of them"),
    "general.text": Told("sentences", "section 3.1"),
    "general.pieces": Told(4_000_000, "section 5.4", why="the largest of its three"),
    **_alike(_TRAINING, "", of("general", batch_size=1024, learning_rate=1e-3)),
    **_alike("", OURS, of("general", schedule="constant", warmup_ratio=0.0, epochs=3, max_length=64)),
}  # fmt: skip
_POINTS = "the points of the figure are not in the text; ours"
CURVE = {
    **WU,
    "tasks": Told("qqp", "Figure 2"),
    "epochs": Told((1, 2, 4, 8), why=_POINTS),
    "patience": Told(0, why=OURS),
}
WU_SPEED = {
    "batch_size": Told(1024, "section 5.2"),
    "rounds": Told(98, "section 5.2", why="100,000 pairs"),
    "max_length": Told(64, why=OURS),
}

# ---------------------------------------------------------------- liu2020, Effective Utilization, chapter 3

_BILSTM = "section 3.4.1"

LIU_BILSTM = {
    **BERT_TEACHER,
    **_alike(_BILSTM, "", {"teacher": "bert-large-uncased", "inits": "vectors:GoogleNews-vectors-negative300.bin"}),
    "teacher.learning_rate": Told(3e-5, _BILSTM, says="the best of 2e-5, 3e-5, 4e-5 and 5e-5", why=DEVLIN),
    "tasks": Told(("sst2", "qqp", "stsb", "mrpc", "mnli"), "section 3.4.2"),
    "protocol": Told("published", _BILSTM, why="sizes are chosen on dev"),
    **_alike(_BILSTM, "", of("student", channels="frozen_and_trained", hidden_units=(150, 300), head_units=(200, 400))),
    **_alike(_BILSTM, "", {"optimiser": "adadelta", "learning_rate": 1.0}),
    **_alike("", OURS, {"seeds": 3, "schedule": "constant", "warmup_ratio": 0.0, "weight_decay": 0.0}),
    **_alike("", OURS, {"gradient_clip": 1.0, "epochs": 15, "patience": 3}),
    "batch_size": Told({"": 50, "qqp": 256, "mnli": 256}, _BILSTM),
    "augmentation_copies": Told({"": 10, "stsb": 40, "mrpc": 40}, _BILSTM, why="less those that repeat"),
    "augmentation_probability": Told(0.1, "sections 3.3 and 3.4.1", why="of each of the two ways"),
}
_ONE_SIZE = {
    **LIU_BILSTM,
    "tasks": Told(("sst2", "qqp"), "Figure 3.3"),
    "student.head_units": Told(200, _BILSTM, says="the best of 200 and 400", why="the smaller"),
}
COPIES_TOLD = {
    **_ONE_SIZE,
    "student.hidden_units": Told(150, _BILSTM, says="the best of 150 and 300", why="the smaller"),
    "augmentation_copies": Told((1, 2, 5, 10, 20), why=_POINTS),
}
UNITS_TOLD = {**_ONE_SIZE, "student.hidden_units": Told((2, 8, 32, 150, 300), why=_POINTS)}
LIU_BILSTM_SPEED = {
    "batch_size": Told(512, "section 3.5.2"),
    "rounds": Told({"speed": 132, "speed_pairs": 711}, "section 3.5.2", why="the sentences of SST-2, the pairs of QQP"),
    "max_length": Told(64, why=OURS),
    "student.channels": Told("frozen_and_trained", _BILSTM),
}

# ---------------------------------------------------------------- liu2020, chapter 4

_MKD = "section 4.3.2"
_CONSTANT = _alike("", OURS, {"schedule": "constant", "warmup_ratio": 0.0})
_JOINTLY = {
    **_alike(_MKD, "", {"learning_rate": 5e-4, "batch_size": 128, "gradient_clip": 1.0}),
    "epochs": Told(16, _MKD, why="the most that it allows"),
    "weight_decay": Told(0.0, _MKD, why=ADAM),
    **_CONSTANT,
}
_MASKED = {
    **_alike(_MKD, "", {"augmentation": "masking", "augmentation_probability": 0.1}),
    "augmentation_copies": Told(10, why=OURS),
}
_NEW = "BERT itself is new to the tasks"
_OF_MKD = {
    **BERT_TEACHER,
    "teacher": Told("bert-large-uncased", _MKD, says="the released MT-DNN, of its size", why="not at hand"),
    "tasks": Told(
        ("sst2", "mrpc", "stsb", "qqp", "mnli", "qnli_ranking", "rte"),
        "section 4.3.1",
        why="QNLI ranked, as section 4.1.1 says",
    ),
    "protocol": Told("published", _MKD, why="chosen on dev, there by the loss, here by the task's measure"),
    **_alike(_MKD, "", {"inits": "random", "student.hidden_units": 256, "student.layers": 3}),
    "student.head_units": Told(512, _MKD, why="the output of its task layers"),
    **_alike("", OURS, {"seeds": 3, "student.embedding_size": 300}),
    "student.vocabulary": Told("teacher", _MKD, why="WordPiece"),
    "multi_task_teacher.learning_rate": Told(3e-5, _MKD, says="5e-4", why="too high for BERT itself: its own"),
    "multi_task_teacher.epochs": Told(3, _MKD, says="1", why=_NEW),
    "multi_task_teacher.warmup_ratio": Told(0.1, why=DEVLIN),
}
LIU_JOINT = {**_OF_MKD, **_JOINTLY, **_MASKED}
_TUNED = {
    **_OF_MKD,
    **of("multi_task", _JOINTLY),
    "learning_rate": Told(
        (5e-4, 5e-5, 1.5e-5, 1e-5), _MKD, says="1e-5, 1.5e-5 and 5e-5", why="5e-4 for the row that starts from nothing"
    ),
    **_alike(_MKD, "as in the joint distillation", {"epochs": 16, "batch_size": 128, "gradient_clip": 1.0}),
    "patience": Told(3, why=OURS),
    "weight_decay": Told(0.0, _MKD, why=ADAM),
    **_CONSTANT,
}
LIU_TUNED = {**_TUNED, **of("multi_task", _MASKED)}
LIU_TUNED_BY_TASKS = {**_TUNED, "multi_task_teacher.epochs": Told((2, 3), _MKD, says="1", why=_NEW)}
LIU_JOINT_SPEED = {
    **_alike("section 4.4.3", "", {"batch_size": 128, "rounds": 100}),
    "max_length": Told(128, "section 4.4.3", why="of each sentence; it may be of a pair"),
}
