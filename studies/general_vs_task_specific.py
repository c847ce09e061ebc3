"""Table III of galke2022: general distillation, task-specific distillation, and the second after the first."""

from harness.contracts import Published, Row, Study
from harness.registry import study
from studies.matrix_settings import GENERAL, NOTES, profiles
from studies.told import GALKE

STUDENT = "bidirectional_hybrid"
HEAD = {"student.head": "mlp", "student.pair_encoding": "diffcat"}

study(
    Study(
        name="general_vs_task_specific",
        title="General against task-specific distillation",
        question="Is a matrix embedding better distilled on unlabelled text, on the task, or on one after the other?",
        procedure="one_stage",
        rows=(
            Row(
                "general",
                "mlm_kd",
                "General",
                published="General",
                student=STUDENT,
                init="random",
                procedure="general",
                settings=HEAD,
                mark="distilled on the corpus, then trained on the labels without the teacher",
            ),
            Row(
                "task_specific",
                "vanilla_kd",
                "Task-specific, random",
                published="Task-specific, rand. init",
                student=STUDENT,
                init="random",
                settings=HEAD,
            ),
            Row(
                "task_specific_pretrained",
                "vanilla_kd",
                "Task-specific, pretrained",
                published="Task-specific, pretrained",
                student=STUDENT,
                init="pretrained",
                settings=HEAD,
                mark="starts from the student of the general distillation",
            ),
        ),
        students=(STUDENT,),
        published=Published(
            files=("galke2022_table03_general_vs_task_specific.csv",),
            source="Galke et al., Matrix Embeddings, Table III",
            row_column="row",
            notes=(*NOTES, *GENERAL),
        ),
        told=GALKE,
        profiles=profiles(small=("cola", "mrpc", "rte", "sst2", "stsb_classes")),
    )
)
