"""The settings every training run has. A default, once released, never changes: run identities are built on it."""

from harness.contracts import Hyperparameter

PREDICTION = "vanilla_kd"  # what the second stage of two_stage trains (wang2023, section 4)

TRAINING: dict[str, Hyperparameter] = {
    "epochs": Hyperparameter(3, low=1),  # of each stage
    "batch_size": Hyperparameter(32, low=1),
    "learning_rate": Hyperparameter(5e-5, low=1e-8, high=10.0, log=True),  # peak
    "schedule": Hyperparameter("linear", choices=("linear", "polynomial", "cosine", "constant")),
    "warmup_ratio": Hyperparameter(0.06, low=0.0, high=0.9),  # share of a stage's steps
    "weight_decay": Hyperparameter(0.01, low=0.0),  # on matrices only
    "gradient_clip": Hyperparameter(1.0, low=1e-6),  # largest norm of the gradient
    "max_length": Hyperparameter(128, low=4),  # tokens; longer inputs are cut
    "train_examples": Hyperparameter(0, low=0),  # 0: all; never limits a teacher
    "patience": Hyperparameter(0, low=0),  # prediction-stage epochs without improvement before stopping; 0: never
    "protocol": Hyperparameter("held_out", choices=("held_out", "published")),  # what epochs and settings are chosen on
    "pruner": Hyperparameter("none", choices=("none", "median")),
    "precision": Hyperparameter("float32", choices=("float32", "bfloat16")),  # of the model; losses are float32
    "threads": Hyperparameter(1, low=1),  # they change the numbers, so they are part of what a run is
    "cache_gib": Hyperparameter(1.0, low=0.0),  # a teacher signal of one layer larger than this is computed on the fly
}
