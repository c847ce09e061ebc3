"""Tables VI and VII of galke2022: the search space, and the best configuration of each task.

Embedding and initialisation are axes of the table, so that every one of them is searched; head, pair encoding and
learning rate are searched in each cell.
"""

from dataclasses import replace

from harness.contracts import Published, Row, Study
from harness.registry import study
from harness.studies.matrix_settings import BOTH_STARTS, GENERAL, NOTES, RELU, SOURCE
from harness.studies.told import GALKE_SEARCH

LISTED = "The text names six learning rates and lists five; Table VI has the sixth, 5e-6."
TRIALS = {"quick": 4, "small": 8, "paper": 48}
GRID = {"student.pair_encoding": ("diffcat", "joint"), "student.head": ("mlp", "linear", "cnn", "bilstm")}

study(
    Study(
        name="matrix_search",
        title="Search over matrix embeddings",
        question="Which embedding, start, head, pair encoding and learning rate is best for each task?",
        procedure="one_stage",
        rows=(Row("best", "vanilla_kd", "Best of its search", "best configuration"),),
        students=("hybrid", "cmow", "cbow", "bidirectional_hybrid"),
        published=Published(
            ("galke2022_table07_best_configurations.csv", "galke2022_table06_search_space.csv"),
            f"{SOURCE}, Table VII",
            axes={"embedding": "student", "init": "init"},
            omitted=(
                (
                    {"table": "VI"},
                    "Table VI, the search space, holds settings: its task-specific half is searched here, of its "
                    "general half (rate, warm-up, dropouts and batch size of the corpus distillation) nothing is.",
                ),
                (
                    "learning_rate",
                    "Head, pair encoding and learning rate of the printed configurations are settings too: those "
                    "chosen here are in table.json, and harness show CELL tells them.",
                ),
            ),
            notes=(*NOTES, *GENERAL, RELU, LISTED),
        ),
        told=GALKE_SEARCH,
        profiles={
            size: replace(profile, trials=TRIALS[size], search={**GRID, **profile.search})
            for size, profile in BOTH_STARTS.items()
        },
    )
)
