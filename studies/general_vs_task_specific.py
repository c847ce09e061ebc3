"""Table III of galke2022: corpus distillation, task-specific distillation, and the second after the first."""

from typing import Any

from harness.contracts import Published, Row, Study
from harness.registry import study
from harness.studies.matrix_settings import GENERAL, MLP, NOTES, SIZES, SOURCE
from harness.studies.profiles import FROM_CORPUS, varied
from harness.studies.told import GALKE

STUDENT = "bidirectional_hybrid"
AFTER, STARTS = "Task-specific, pretrained", "starts from the student of the corpus distillation"


def _row(name: str, objective: str, label: str, printed: str, init: str, **more: Any) -> Row:
    return Row(name, objective, label, printed, student=STUDENT, init=init, settings=MLP, **more)


study(
    Study(
        name="general_vs_task_specific",
        title="General against task-specific distillation",
        question="Is a matrix embedding better distilled on unlabelled text, on the task, or on one after the other?",
        procedure="one_stage",
        rows=(
            _row("general", "mlm_kd", "General", "General", "random", procedure="general", mark=FROM_CORPUS),
            _row("task_specific", "vanilla_kd", "Task-specific, random", "Task-specific, rand. init", "random"),
            _row("task_specific_pretrained", "vanilla_kd", AFTER, AFTER, "pretrained", mark=STARTS),
        ),
        students=(STUDENT,),
        published=Published(
            ("galke2022_table03_general_vs_task_specific.csv",), f"{SOURCE}, Table III", notes=(*NOTES, *GENERAL)
        ),
        told=GALKE,
        profiles=varied(SIZES, {"small": ("cola", "mrpc", "rte", "sst2", "stsb_classes")}),
    )
)
