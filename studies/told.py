"""What the texts of the four works tell of their settings, and what the studies' profiles `paper` have, side by side.

`harness plan --profile paper --explain` shows it. A setting whose value changes in a profile has to change here too.
"""

from __future__ import annotations

from harness.contracts import Told

RELEASED = "that of the released implementation"
OURS = "ours"
ONE_SIDE = "the scores printed are of dev, which chooses too"
DEVLIN = "BERT's own recipe for GLUE (Devlin et al., 2019, appendix A.3)"
LIU_2019 = "recommended by Liu et al. (2019), whom the text names"
ADAM = "what the works call Adam is AdamW without decay"

# BERT as a teacher, fine-tuned here.
BERT_TEACHER = {
    "teacher.learning_rate": Told(3e-5, why=DEVLIN),
    "teacher.epochs": Told({"": 3, "mnli": 2, "qqp": 2, "qnli": 2, "qnli_ranking": 2, "sst2": 2}, why=DEVLIN),
    "teacher.warmup_ratio": Told(0.1, why=DEVLIN),
    "teacher.batch_size": Told(32, why=DEVLIN),
    "teacher.weight_decay": Told(0.01, why="BERT's own (Devlin et al., 2019, appendix A.2)"),
}

# ---------------------------------------------------------------- wang2023, How to Distill your BERT

_SETUP = "section 4"
_TASKS = ("qnli", "sst2", "mnli", "mrpc", "qqp", "rte", "cola")

WANG_TASK_SPECIFIC = {
    "teacher": Told("roberta-base", _SETUP),
    "tasks": Told(_TASKS, _SETUP),
    "inits": Told(
        ("every", "first", "last", "1,8,12", "random:embeddings"),
        "caption of Table 1",
        says="every 4th layer of the teacher",
        why="the others ask the second question: --inits every is the published table",
    ),
    "seeds": Told(4, "caption of Table 1"),
    "protocol": Told("published", "captions of Tables 1 and 2", why=ONE_SIDE),
    "student.layers": Told(3, _SETUP),
    "epochs": Told(10, _SETUP, why="of each of the two stages"),
    "learning_rate": Told({"": 1e-5, "rte": 2e-5}, _SETUP, why=f"{LIU_2019}; {RELEASED}"),
    "batch_size": Told({"": 32, "mrpc": 16, "rte": 16, "cola": 16}, _SETUP, why=f"{LIU_2019}; {RELEASED}"),
    "warmup_ratio": Told({"": 0.06, "qqp": 0.25}, _SETUP, says="0.06, by Liu et al. (2019)", why="QQP as released"),
    "weight_decay": Told(0.1, _SETUP, why=LIU_2019),
    "adam_beta2": Told(0.98, _SETUP, why=LIU_2019),
    "adam_epsilon": Told(1e-6, _SETUP, why=LIU_2019),
    "gradient_clip": Told(0.0, _SETUP, why=f"none: {LIU_2019}"),
    "schedule": Told("polynomial", why=RELEASED),
    "max_length": Told(512, why=RELEASED),
    "vanilla_kd.temperature": Told(2.0, why=f"the text names one without its value; {RELEASED}"),
    "vanilla_kd.soft_weight": Told(0.5, why=RELEASED),
    "hid_cls_contrast.negatives": Told(100, why="customary; the released ones were given on a command line"),
    "hid_cls_contrast.width": Told(128, why="customary; the released one was given on a command line"),
    "teacher.learning_rate": Told(2e-5, why="Liu et al. (2019), table 10; the text gives no settings"),
    "teacher.batch_size": Told({"": 32, "mrpc": 16, "rte": 16, "cola": 16}, why="Liu et al. (2019), table 10"),
    "teacher.epochs": Told(10, why="Liu et al. (2019), table 10"),
    "teacher.weight_decay": Told(0.1, why="Liu et al. (2019), table 10"),
    "teacher.adam_beta2": Told(0.98, why="Liu et al. (2019)"),
    "teacher.adam_epsilon": Told(1e-6, why="Liu et al. (2019)"),
    "teacher.gradient_clip": Told(0.0, why="none: Liu et al. (2019)"),
}

WANG_TASK_AGNOSTIC = {
    **BERT_TEACHER,
    "teacher": Told("bert-base-uncased", _SETUP),
    "tasks": Told(_TASKS, _SETUP),
    "inits": Told("random", "caption of Table 2"),
    "seeds": Told(1, "caption of Table 2", why="the best of the grid, one run of each setting"),
    "protocol": Told("published", "captions of Tables 1 and 2", why=ONE_SIDE),
    "corpus": Told("hub:wikipedia+hub:bookcorpus", _SETUP),
    "student.layers": Told(6, _SETUP),
    "general.steps": Told(100_000, _SETUP),
    "general.batch_size": Told(1024, _SETUP),
    "general.learning_rate": Told(5e-4, _SETUP),
    "general.max_length": Told(128, _SETUP),
    "general.transferred_layers": Told(("last", "mapped"), _SETUP, why="the last wherever layers are compared"),
    "general.warmup_ratio": Told(0.06, why=RELEASED),
    "general.weight_decay": Told(0.01, why=RELEASED),
    "general.adam_beta2": Told(0.98, why=RELEASED),
    "general.pack": Told(True, why="the hub's BookCorpus is a sentence a row; ours"),
    "general.precision": Told("bfloat16", why=OURS),
    "general.mlm_kd.soft_weight": Told(0.5, why=OURS),
    "batch_size": Told((16, 32), _SETUP),
    "learning_rate": Told((1e-5, 3e-5, 5e-5, 8e-5), _SETUP),
    "epochs": Told(3, why=OURS),
}

# ---------------------------------------------------------------- galke2022, Matrix Embeddings

_LOST = "the number is lost in the text at hand; ours"
_RATES = (1e-3, 5e-4, 1e-4, 5e-5, 1e-5, 5e-6)

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
    "seeds": Told(3, why=_LOST),
    "protocol": Told("published", "section IV-B", why="chosen by the task's measure on dev"),
    "epochs": Told(20, why=_LOST),
    "patience": Told(5, why=_LOST),
    "learning_rate": Told(_RATES, "Table VI"),
    "student.hidden_dropout": Told(
        0.2, "section III-A and Table VI", says="0.2 during pretraining", why="on the tasks too"
    ),
    "student.embedding_dropout": Told(
        0.1, "section III-A and Table VI", says="0 or 0.1 during pretraining", why="on the tasks too"
    ),
    "schedule": Told("linear", "appendix B"),
    "warmup_ratio": Told(0.0, "appendix B"),
    "batch_size": Told(32, why="section IV-B says only that sizes fit the training data; ours"),
    "vanilla_kd.temperature": Told(1.0, "section IV-B"),
    "vanilla_kd.soft_weight": Told(0.5, "section IV-B", why="equal weights"),
    "corpus": Told("hub:wikipedia+hub:bookcorpus", "section IV-A"),
    "general.mlm_kd.soft_weight": Told(0.5, "section IV-A", why="equal weights"),
    "general.epochs": Told(1, why=OURS),
    "general.batch_size": Told(128, "Table VI", why="one of its sizes"),
    "general.learning_rate": Told(5e-4, "Table VI", says="the best of 1e-3, 5e-4, 1e-4, 5e-5 and 1e-5", why=RELEASED),
    "general.max_length": Told(128, why=OURS),
    "general.warmup_ratio": Told(0.0, "appendix B"),
    "general.weight_decay": Told(0.0, why=RELEASED),
    "general.adam_beta2": Told(0.98, why=RELEASED),
    "general.adam_epsilon": Told(1e-6, why=RELEASED),
    "general.gradient_clip": Told(5.0, why=RELEASED),
    "general.pack": Told(True, why="the hub's BookCorpus is a sentence a row; ours"),
}  # fmt: skip
GALKE_HEADS = {**GALKE, "inits": Told(("random", "pretrained"), "Table VI")}
GALKE_SEARCH = {
    **GALKE_HEADS,
    "student.pair_encoding": Told(("diffcat", "joint"), "Table VI"),
    "student.head": Told(("mlp", "linear", "cnn", "bilstm"), "Table VI"),
}
GALKE_SPEED = {
    "batch_size": Told(256, "section V-E"),
    "rounds": Told(1024, "section V-E"),
    "max_length": Told(64, "section V-E"),
}

# ---------------------------------------------------------------- wu2020, Sentence Representation Approximation

_TRAINING = "section 4.3"

WU_KD_TEACHER = Told(
    "bert-base-uncased", "section 5.3", says="BERT-large, of KD; BERT-base of SRA", why="one teacher for all"
)
WU = {
    **BERT_TEACHER,
    "teacher": Told("bert-base-uncased", _TRAINING),
    "tasks": Told(("sst2", "qqp", "mnli", "mrpc"), "section 4.1"),
    "inits": Told("vectors:glove.840B.300d.txt", _TRAINING),
    "seeds": Told(3, why=OURS),
    "protocol": Told("published", _TRAINING, why="rates are chosen on the validation set"),
    "corpus": Told("hub:wikipedia", "section 3.1"),
    "student.hidden_units": Told(512, _TRAINING),
    "student.head_units": Told(256, _TRAINING),
    "student.projection": Told("teacher_width", "section 3.1"),
    "learning_rate": Told((2e-4, 3e-4, 5e-4, 1e-3), _TRAINING),
    "weight_decay": Told(0.0, _TRAINING, why=ADAM),
    "schedule": Told("constant", why=OURS),
    "warmup_ratio": Told(0.0, why=OURS),
    "epochs": Told(10, why=OURS),
    "batch_size": Told(64, why=OURS),
    "patience": Told(3, why=OURS),
    "augmentation_copies": Told(
        {"sst2": 11, "mrpc": 217, "": 10}, _TRAINING,
        why="with the examples themselves 800,000 of SST-2 and MRPC; the 10 of QQP and MNLI are those of liu2020",
    ),
    "augmentation_probability": Told(0.1, why="that of liu2020"),
    "train_examples": Told(0, why="all of them"),
    "general.text": Told("sentences", "section 3.1"),
    "general.pieces": Told(4_000_000, "section 5.4", why="the largest of its three"),
    "general.batch_size": Told(1024, _TRAINING),
    "general.learning_rate": Told(1e-3, _TRAINING),
    "general.weight_decay": Told(0.0, _TRAINING, why=ADAM),
    "general.schedule": Told("constant", why=OURS),
    "general.warmup_ratio": Told(0.0, why=OURS),
    "general.epochs": Told(3, why=OURS),
    "general.max_length": Told(64, why=OURS),
}  # fmt: skip
CURVE = {
    **WU,
    "tasks": Told("qqp", "Figure 2"),
    "epochs": Told((1, 2, 4, 8), why="the points of the figure are not in the text; ours"),
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
    "teacher": Told("bert-large-uncased", _BILSTM),
    "teacher.learning_rate": Told(3e-5, _BILSTM, says="the best of 2e-5, 3e-5, 4e-5 and 5e-5", why=DEVLIN),
    "tasks": Told(("sst2", "qqp", "stsb", "mrpc", "mnli"), "section 3.4.2"),
    "inits": Told("vectors:GoogleNews-vectors-negative300.bin", _BILSTM),
    "seeds": Told(3, why=OURS),
    "protocol": Told("published", _BILSTM, why="sizes are chosen on dev"),
    "student.channels": Told("frozen_and_trained", _BILSTM),
    "student.hidden_units": Told((150, 300), _BILSTM),
    "student.head_units": Told((200, 400), _BILSTM),
    "optimiser": Told("adadelta", _BILSTM),
    "learning_rate": Told(1.0, _BILSTM),
    "schedule": Told("constant", why=OURS),
    "warmup_ratio": Told(0.0, why=OURS),
    "weight_decay": Told(0.0, why=OURS),
    "gradient_clip": Told(1.0, why=OURS),
    "epochs": Told(15, why=OURS),
    "patience": Told(3, why=OURS),
    "batch_size": Told({"": 50, "qqp": 256, "mnli": 256}, _BILSTM),
    "augmentation_copies": Told({"": 10, "stsb": 40, "mrpc": 40}, _BILSTM),
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
    "augmentation_copies": Told((1, 2, 5, 10, 20), why="the points of the figure are not in the text; ours"),
}
UNITS_TOLD = {
    **_ONE_SIZE,
    "student.hidden_units": Told((2, 8, 32, 150, 300), why="the points of the figure are not in the text; ours"),
}
LIU_BILSTM_SPEED = {
    "batch_size": Told(512, "section 3.5.2"),
    "rounds": Told({"speed": 132, "speed_pairs": 711}, "section 3.5.2", why="the sentences of SST-2, the pairs of QQP"),
    "max_length": Told(64, why=OURS),
    "student.channels": Told("frozen_and_trained", _BILSTM),
}

# ---------------------------------------------------------------- liu2020, chapter 4

_MKD = "section 4.3.2"
_AS_ABOVE = "as in the joint distillation"
_JOINTLY = {
    "learning_rate": Told(5e-4, _MKD),
    "epochs": Told(16, _MKD, why="the most that it allows"),
    "batch_size": Told(128, _MKD),
    "gradient_clip": Told(1.0, _MKD),
    "weight_decay": Told(0.0, _MKD, why=ADAM),
    "schedule": Told("constant", why=OURS),
    "warmup_ratio": Told(0.0, why=OURS),
}
_MASKED = {
    "augmentation": Told("masking", _MKD),
    "augmentation_probability": Told(0.1, _MKD),
    "augmentation_copies": Told(10, why=OURS),
}
_OF_MKD = {
    **BERT_TEACHER,
    "teacher": Told("bert-large-uncased", _MKD, says="the released MT-DNN, of its size", why="not at hand"),
    "tasks": Told(
        ("sst2", "mrpc", "stsb", "qqp", "mnli", "qnli_ranking", "rte"),
        "section 4.3.1",
        why="QNLI ranked, as section 4.1.1 says",
    ),
    "inits": Told("random", _MKD),
    "seeds": Told(3, why=OURS),
    "protocol": Told("published", _MKD, why="chosen on dev, there by the loss, here by the task's measure"),
    "student.hidden_units": Told(256, _MKD),
    "student.head_units": Told(512, _MKD, why="the output of its task layers"),
    "student.layers": Told(3, _MKD),
    "student.embedding_size": Told(300, why=OURS),
    "student.vocabulary": Told("teacher", _MKD, why="WordPiece"),
    "multi_task_teacher.learning_rate": Told(3e-5, _MKD, says="5e-4", why="too high for BERT itself: its own"),
    "multi_task_teacher.epochs": Told(3, _MKD, says="1", why="BERT itself is new to the tasks"),
    "multi_task_teacher.warmup_ratio": Told(0.1, why=DEVLIN),
}
LIU_JOINT = {**_OF_MKD, **_JOINTLY, **_MASKED}
_TUNED = {
    **_OF_MKD,
    **{f"multi_task.{name}": told for name, told in _JOINTLY.items()},
    "learning_rate": Told(
        (5e-4, 5e-5, 1.5e-5, 1e-5), _MKD, says="1e-5, 1.5e-5 and 5e-5", why="5e-4 for the row that starts from nothing"
    ),
    "epochs": Told(16, _MKD, why=_AS_ABOVE),
    "batch_size": Told(128, _MKD, why=_AS_ABOVE),
    "gradient_clip": Told(1.0, _MKD, why=_AS_ABOVE),
    "patience": Told(3, why=OURS),
    "weight_decay": Told(0.0, _MKD, why=ADAM),
    "schedule": Told("constant", why=OURS),
    "warmup_ratio": Told(0.0, why=OURS),
}
LIU_TUNED = {**_TUNED, **{f"multi_task.{name}": told for name, told in _MASKED.items()}}
LIU_TUNED_BY_TASKS = {
    **_TUNED,
    "multi_task_teacher.epochs": Told((2, 3), _MKD, says="1", why="BERT itself is new to the tasks"),
}
LIU_JOINT_SPEED = {
    "batch_size": Told(128, "section 4.4.3"),
    "rounds": Told(100, "section 4.4.3"),
    "max_length": Told(128, "section 4.4.3", why="of each sentence; it may be of a pair"),
}
