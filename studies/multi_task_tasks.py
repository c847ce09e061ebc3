"""Table 4.3 of liu2020: which tasks the joint distillation learns from, before training on each. No augmentation."""

from harness.contracts import Published, Row, Study
from harness.registry import study
from harness.studies.lstm_settings import METRICS, OF_JOINT, SOURCE, joint_sizes
from harness.studies.profiles import varied
from harness.studies.told import LIU_TUNED_BY_TASKS

ITS_TEACHER = (
    "The text tells of one refined teacher; ours of a row is refined on that row's tasks alone, so that a row tells of "
    "teacher and student together."
)
REMARKS = (
    *OF_JOINT,
    ITS_TEACHER,
    "STS-B is in none of the three groups. The text calls all tasks best; MRPC is higher with inference alone "
    "(87.9/82.1) and the F1 of QQP with paraphrase alone (84.9).",
)


def _row(name: str, label: str, published: str, tasks: tuple[str, ...]) -> Row:
    mark = f"distilled on {published}, then trained on the labels of each task without the teacher"
    printed = {"section": published}
    return Row(name, "labels_only", label, printed, init="multi_task", training_tasks=tasks, mark=mark)


study(
    Study(
        name="multi_task_tasks",
        title="Tasks of multi-task distillation",
        question="From which tasks should a student be distilled jointly?",
        procedure="one_stage",
        rows=(
            _row("sentiment", "Sentiment", "Sentiment Task", ("sst2", "sentiment")),
            _row("paraphrase", "Paraphrase", "PI Tasks", ("mrpc", "qqp", "paraphrase")),
            _row("inference", "Inference", "NLI Tasks", ("mnli", "qnli", "qnli_ranking", "rte", "entailment")),
            _row("all", "All", "All Tasks", ()),
        ),
        students=("biattentive_lstm",),
        metrics=METRICS,
        general="logit_mse",
        published=Published(("liu2020_table4_3_training_task_ablation.csv",), f"{SOURCE}, Table 4.3", notes=REMARKS),
        told=LIU_TUNED_BY_TASKS,
        profiles=varied(
            joint_sizes(augmented=False), {"quick": ("sentiment", "paraphrase", "entailment", "similarity")}
        ),
    )
)
