"""The settings every training run has. A default, once released, never changes: run identities are built on it."""

from collections.abc import Callable
from typing import Any

from harness.contracts import Hyperparameter
from harness.hyperparameters import Value, Values
from harness.rows import LABELS as LABELS  # teachers are fine-tuned by it

# The objectives that are part of what a run is, beside those that studies name.
MASKED_LABELS = "mlm"  # a teacher without a head for masked tokens is trained by it
PREDICTION = "vanilla_kd"  # the second stage of two_stage trains it (wang2023, section 4)

# Name -> (the fewest epochs of a run that it can spare one of; what makes it, of `optuna.pruners` and a run's epochs).
# Hyperband's first rung is the first epoch, where it has seen nothing else: it needs a third.
PRUNERS: dict[str, tuple[int, Callable[[Any, int], Any]]] = {
    "median": (2, lambda made, epochs: made.MedianPruner(n_startup_trials=1)),
    "hyperband": (3, lambda made, epochs: made.HyperbandPruner(1, max_resource=epochs, reduction_factor=3)),
}

TRAINING: dict[str, Hyperparameter] = {
    "epochs": Hyperparameter(3, low=1, says="passes over the training data in each stage"),
    "batch_size": Hyperparameter(32, low=1, says="examples of an update"),
    "optimiser": Hyperparameter("adamw", choices=("adamw", "adadelta"), says="with weight_decay 0, adamw is Adam"),
    "learning_rate": Hyperparameter(5e-5, low=1e-8, high=10.0, log=True, says="its highest value, after the warm-up"),
    "schedule": Hyperparameter(
        "linear",
        choices=("linear", "polynomial", "cosine", "constant"),
        says="how the learning rate falls over a stage",
    ),
    "warmup_ratio": Hyperparameter(
        0.06,
        low=0.0,
        high=0.9,
        says="share of a stage's steps in which the learning rate rises; not with schedule constant",
    ),
    "weight_decay": Hyperparameter(
        0.01,
        low=0.0,
        says="of matrices alone, not of biases, norms and the tables of words of LSTMs and matrix embeddings",
    ),
    "adam_beta2": Hyperparameter(
        0.999, low=0.5, high=0.999999, says="of AdamW, as its second moments decay; beta1 is 0.9"
    ),
    "adam_epsilon": Hyperparameter(1e-8, low=1e-12, high=1.0, log=True, says="of adamw"),
    "gradient_clip": Hyperparameter(1.0, low=0.0, says="largest norm of the gradient; 0: any"),
    "max_length": Hyperparameter(128, low=4, high=65_536, says="tokens of an input; longer ones are cut"),
    "augmentation": Hyperparameter(
        "none", says="of training examples: none, masking, masking+pos, word_vectors:FILE or masked_language_model"
    ),
    "augmentation_copies": Hyperparameter(5, low=1, says="further texts made of each example"),
    "augmentation_vectors": Hyperparameter(
        "none", says="FILE with neighbours for the words that a masked language model splits"
    ),
    "augmentation_probability": Hyperparameter(0.4, low=0.01, high=1.0, says="of replacing a word"),
    "train_fraction": Hyperparameter(
        1.0,
        low=0.001,
        high=1.0,
        says="share of the training data, or of train_examples, that teacher and student are trained on",
    ),
    "train_examples": Hyperparameter(0, low=0, says="examples that students are trained on; 0: all"),
    "train_sample": Hyperparameter(
        "one",
        choices=("one", "each_seed"),
        says="whether train_examples are the same for all seeds or drawn for each, and then the same for all rows",
    ),
    "labels": Hyperparameter("given", choices=("given", "none"), says="none: the teacher's answers stand for them"),
    "patience": Hyperparameter(0, low=0, says="prediction-stage epochs without improvement before stopping; 0: never"),
    "protocol": Hyperparameter(
        "held_out",
        choices=("held_out", "published", "nested"),
        says="what epochs and settings are chosen on: held-out training data, dev as in the papers, or each fifth of "
        "the training data in turn, after which all of them are trained on",
    ),
    "pruner": Hyperparameter(
        "none", choices=("none", *PRUNERS), says="stops trials early that do worse than those before them"
    ),
    "precision": Hyperparameter(
        "float32", choices=("float32", "bfloat16"), says="of the model's forward pass; losses are float32"
    ),
    "threads": Hyperparameter(1, low=1, high=1024, says="of a run; they change its numbers"),
    "cache_gib": Hyperparameter(
        1.0, low=0.0, says="a teacher's signal of one layer that is larger is computed anew for each batch, not stored"
    ),
}

# Of a search: no part of what its runs are, but for the values that it draws.
SEARCH: dict[str, Hyperparameter] = {
    "sampler": Hyperparameter(
        "that of the study", choices=("grid", "random", "tpe"), says="what draws the settings of a trial"
    ),
    "searches": Hyperparameter(
        "one", choices=("one", "each_seed"), says="of a cell: one whose settings all seeds use, or one for each seed"
    ),
}

FOLDS = 5  # that protocol nested parts the training data in
HELD_OUT, MOST_HELD_OUT = 0.1, 2000  # of the training examples, by protocol held_out


def held_out_of(size: int, fraction: float = HELD_OUT, most: int = MOST_HELD_OUT) -> int:
    """How many of so many examples are held out, where none must stay together."""
    return min(max(int(size * fraction), 1), most)


ADAM = frozenset({"adam_beta2", "adam_epsilon"})  # without effect on AdaDelta

MASKED, VECTORS = "masked_language_model", "word_vectors"  # augmentations that replace words

POLYNOMIAL_END = 1e-7  # the learning rate that transformers' polynomial schedule ends at


def refused_rate(settings: Values) -> str:
    """Why these settings have no schedule of the learning rate, or ""."""
    schedule, rate = (Settings(settings)[name] for name in ("schedule", "learning_rate"))
    if schedule != "polynomial" or rate > POLYNOMIAL_END:
        return ""
    return f"schedule polynomial ends at a rate of {POLYNOMIAL_END}, so learning_rate must be above it, not {rate}"


# Of fine-tuning a teacher, given as "teacher.NAME": it reads examples as they are, of the same share of the data as its
# students, and there is one trial.
TEACHER_TRAINING = {
    name: declared
    for name, declared in TRAINING.items()
    if not name.startswith(("augmentation", "train_fraction", "train_sample", "labels", "pruner"))
}
TEACHER_TRAINING["train_examples"] = Hyperparameter(
    0, low=0, says="examples that it is fine-tuned on, however many its students are trained on; 0: all"
)
TEACHER_TRAINING["seeds"] = Hyperparameter(1, low=1, says="teachers of a task: one for all seeds, or one for each")

# Of a distillation on several tasks that a student starts from, given as "multi_task.NAME"; the rest it shares, as a
# teacher with its students.
SHARED = ("max_length", "protocol", "threads", "precision", "train_fraction", "labels")
JOINT_TRAINING = {n: h for n, h in TRAINING.items() if n not in (*SHARED, "train_sample", "pruner")}

# Of distillation on a corpus, given as "general.NAME": those of TRAINING that act there, and its own.
MASKING: dict[str, Hyperparameter] = {
    "text": Hyperparameter(
        "masked", choices=("masked", "sentences"), says="what a corpus is read as: pieces with masks, or sentences"
    ),
    "pieces": Hyperparameter(0, low=0, says="pieces or sentences of the corpus that are trained on; 0: all"),
    "fraction": Hyperparameter(1.0, low=0.0001, high=1.0, says="share of them that is trained on"),
    "mask_probability": Hyperparameter(0.15, low=0.01, high=0.9, says="share of a piece's tokens that are masked"),
    "steps": Hyperparameter(0, low=0, says="updates in all; 0: as many as epochs make"),
    "micro_batch": Hyperparameter(0, low=0, says="pieces of a batch that are computed at once; 0: all"),
    "pack": Hyperparameter(
        False, says="lays the corpus's documents, sentences of running text, together in full pieces"
    ),
    "transferred_layers": Hyperparameter(
        "mapped", choices=("mapped", "last"), says="all layers of the layer map, or the last to the last"
    ),
    "stored_top_k": Hyperparameter(
        0, low=0, says="the teacher's probabilities that are stored for a masked token; 0: none"
    ),
}
ON_MASKED_TEXT = frozenset({"mask_probability", "pack", "stored_top_k"})  # without effect on sentences
_NOT_GENERAL = ("train_", "labels", "patience", "protocol", "pruner", "cache_gib", "augmentation")
GENERAL_TRAINING = MASKING | {
    name: declared for name, declared in TRAINING.items() if not name.startswith(_NOT_GENERAL)
}

# Of a run that only measures the speed of encoding (galke2022, section V-E).
SPEED_SETTINGS: dict[str, Hyperparameter] = {
    "batch_size": Hyperparameter(256, low=1, says="sentences that are encoded at once"),
    "max_length": Hyperparameter(64, low=4, high=65_536, says="tokens of every sequence"),
    "rounds": Hyperparameter(3, low=1, says="measurements, each of the model and the reference in turn"),
    "threads": Hyperparameter(1, low=1, high=1024, says="of a measurement"),
}

# Of the teacher where vectors that no task has tuned are compared (wu2020, section 5.5): its first token, or the mean.
ON_UNTUNED = ("max_length", "protocol", "threads", "precision", "train_fraction", "train_examples")  # without training
NEVER_UNTUNED = ("augmentation", "labels", "patience", "pruner", "cache_gib")
UNTUNED: dict[str, Hyperparameter] = {
    "untuned.pooling": Hyperparameter("first", choices=("first", "mean"), says="what is the teacher's vector of a text")
}
_DECLARED = MASKING | UNTUNED | TRAINING


class Settings(dict[str, Any]):
    """The settings of a run as they were recorded; one that is newer than the run is read at its declared default."""

    def __missing__(self, name: str) -> Any:
        return _DECLARED[name].default

    def of(self, plugin: str) -> dict[str, Value]:
        """Those of a plugin, or of other runs, recorded as "PLUGIN.NAME" or "general.NAME", by name."""
        return {key.removeprefix(f"{plugin}."): value for key, value in self.items() if key.startswith(f"{plugin}.")}
