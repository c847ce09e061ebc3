"""What the studies of liu2020, "Effective Utilization", share: sizes and settings of its chapters 3 and 4.

Chapter 3 (section 3.4.1): BERT-large, a BiLSTM of 150 or 300 units and a last layer of 200 or 400, two channels of the
word2vec vectors of Google News, AdaDelta at 1.0 with rho 0.95, batches of 50 (256 for MNLI and QQP), 10 augmented texts
of each example (40 for STS-B and MRPC) with 0.1 for each of the two ways. Its epochs, runs and gradient clipping are
not given: 15 with patience 3, 3 runs and a norm of 1 are ours. The teacher's rate is chosen from {2, 3, 4, 5}e-5 there;
ours is BERT's recommended one, 3e-5.

Chapter 4 (section 4.3.2): LSTMs of 256 units, heads of 512, Adam at 5e-4, batches of 128, at most 16 epochs, a norm of
1, masking with 0.1; fine-tuning at {1, 1.5, 5}e-5. Its teacher is the released MT-DNN, refined for an epoch at 5e-4;
ours is refined from BERT-large itself, for which that rate is too high: by BERT's own recipe. The number of masked
texts is not given (10 are ours), nor is patience in fine-tuning (3 is ours); 5e-4 joins its grid for the row that
starts from nothing. Adam is AdamW without decay, at a constant rate. QNLI is ranked, see RANKED.

Word vectors are no part of this project: quick and small start from random ones, of which there is one channel. The
words are the 50,000 commonest of the training texts, lower-cased, of which the text says nothing. On the few examples
of quick AdaDelta stays at chance, so there Adam takes its place.
"""

from dataclasses import replace
from typing import Any

from harness.contracts import Profile
from harness.studies.profiles import ADAM, LAZY_ADAM, PAPER, QUICK, SMALL, of, varied

METRICS = {
    "mrpc": ("f1", "accuracy"),
    "qqp": ("f1", "accuracy"),
    "stsb": ("pearson", "spearman"),
    "mnli": ("accuracy", "mismatched_accuracy"),
}
SOURCE = "Liu, Effective Utilization of Pretrained Language Models"
MASKED = {"augmentation": "masking", "augmentation_copies": 10, "augmentation_probability": 0.1}
AUGMENTED = {"augmentation": "masking+pos", "augmentation_probability": 0.1}
ON_AUGMENTED = "trained on augmented texts too"
JOINTLY = "distilled on all tasks together, then trained on the labels of each without the teacher"
EPOCHS_ARE_OURS = "The text gives no epochs and no number of runs; these are ours."
RANKED = (
    "QNLI is relevance ranking (section 4.1.1, which refers to Liu et al., 2019, MT-DNN): a sentence has one score, "
    "and labels train that of the right one above those of its question's other sentences. Half of dev's sentences "
    "in version 2, on which the text is evaluated, have no other: ours are then weighed against 0, and any sentence is "
    "called right by a score above 0, whatever the others' are. What the work does there is not told."
)
WORDS_ARE_OURS = (
    "The BiLSTM reads the 50,000 commonest words of its training texts, lower-cased, beside vectors of cased words; of "
    "its vocabulary the text says nothing."
)
REPEATS = (
    "Copies that repeat another text are dropped (section 3.3), and none is made in their place: of ten of each "
    "example of SST-2 4.4 remain by masking, 6.5 with replacement too, where the text controls the samples to be ten "
    "times the corpus."
)
LOSS_IS_A_MEAN = (
    "The loss is a mean over a task's logits, where Eq. 4.14 is a sum: beside STS-B and QNLI, which have one, MNLI "
    "weighs a third and the other tasks half of what they do there."
)
TEACHER_IS_OURS = "The published teacher starts from the released MT-DNN, ours from the teacher's own weights."
OF_JOINT = (TEACHER_IS_OURS, LOSS_IS_A_MEAN, RANKED, LAZY_ADAM)  # notes of every joint distillation

_ADADELTA = {**ADAM, "optimiser": "adadelta", "learning_rate": 1.0}
_FREQUENT = {"batch_size": 256, "augmentation_copies": 10}
_RARE = {"augmentation_copies": 40}
_SHORT = {**ADAM, "learning_rate": 2e-3, "epochs": 8, "train_examples": 896, "max_length": 32}

# Chapter 3; in the paper's size the grid of sizes is searched.
SIZES = {
    "quick": replace(
        QUICK,
        settings=(
            _SHORT | of("bilstm", hidden_units=64, head_units=32, embedding_size=64) | {"augmentation_copies": 3}
        ),
    ),
    "small": replace(
        SMALL, settings={**_ADADELTA, "epochs": 10, "batch_size": 50, "patience": 3, "augmentation_copies": 10}
    ),
    "paper": replace(
        PAPER,
        teacher="bert-large-uncased",
        tasks=("sst2", "qqp", "stsb", "mrpc", "mnli"),
        inits=("vectors:GoogleNews-vectors-negative300.bin",),
        trials=4,
        settings=(
            _ADADELTA
            | {"protocol": "published", "bilstm.channels": "frozen_and_trained"}
            | {"epochs": 15, "batch_size": 50, "patience": 3}
        ),
        task_settings=(
            {"sst2": {"augmentation_copies": 10}, "qqp": _FREQUENT, "mnli": _FREQUENT} | {"stsb": _RARE, "mrpc": _RARE}
        ),
        search={"student.hidden_units": (150, 300), "student.head_units": (200, 400)},
    ),
}
# For figures: one run of each model in quick and small, and of many models one size of each in the paper's.
ONE_RUN = varied(SIZES, seeds=1) | {"paper": SIZES["paper"]}
ONE_SIZE = ONE_RUN | {"paper": replace(SIZES["paper"], tasks=("sst2", "qqp"), trials=1, search={})}


def _students(hidden: int, head: int, embedding: int) -> dict[str, Any]:
    """Sizes of the students of chapter 4; the BiLSTM beside them reads the teacher's vocabulary as they do."""
    sizes = {"hidden_units": hidden, "head_units": head, "embedding_size": embedding}
    own = {**of("biattentive_lstm", sizes), **of("bilstm", sizes)}
    return {**own, "bilstm.vocabulary": "teacher", "averaged_transformer.head_units": head}


def joint_sizes(fine_tuned: bool = True, augmented: bool = True) -> dict[str, Profile]:
    """The three sizes of chapter 4.

    fine_tuned: what is trained on each task starts from the joint distillation, whose settings are "multi_task.NAME";
    otherwise they are the plain ones. augmented: the joint distillation reads masked texts too, in the paper's size.
    """
    middle = {**ADAM, "learning_rate": 5e-4, "epochs": 8, "batch_size": 64, "patience": 2}
    tuning = {**ADAM, "epochs": 16, "batch_size": 128, "patience": 3}
    joint = {**ADAM, "learning_rate": 5e-4, "epochs": 16, "batch_size": 128, **(MASKED if augmented else {})}

    def settings(tuned: dict[str, Any], joint_runs: dict[str, Any]) -> dict[str, Any]:
        apart = {name: value for name, value in joint_runs.items() if name != "max_length"}
        return {**tuned, **of("multi_task", apart)} if fine_tuned else joint_runs

    paper = replace(
        PAPER,
        teacher="bert-large-uncased",
        tasks=("sst2", "mrpc", "stsb", "qqp", "mnli", "qnli_ranking", "rte"),
        trials=4 if fine_tuned else 1,
        settings={**_students(256, 512, 300), "protocol": "published", **settings(tuning, joint)},
        search={"learning_rate": (5e-4, 5e-5, 1.5e-5, 1e-5)} if fine_tuned else {},
    )
    quick, small = _students(48, 32, 64) | settings(_SHORT, _SHORT), _students(128, 256, 300) | settings(middle, middle)
    return {
        "quick": replace(QUICK, tasks=("acceptability", "sentiment", "similarity"), settings=quick),
        "small": replace(SMALL, tasks=("sst2", "mrpc", "stsb", "rte"), settings=small),
        "paper": paper,
    }
