"""The project's metrics as an `evaluate` module, without a network.

evaluate.load("harness/evaluation/glue_metric.py", "mrpc").compute(predictions=[1, 0], references=[1, 1])
"""

import datasets
import evaluate

from harness.data.tasks import get_task
from harness.evaluation.metrics import score

DESCRIPTION = "The metrics of one task: GLUE's nine, STS-B as classes, and the embedded suite."
INPUTS = """
Args:
    predictions: class indices; scores for a regression task and for binned scores.
    references: class indices; scores for a regression task.
Returns: the task's metrics by name, as fractions and correlations.
"""
CITATION = "Wang et al. (2018). GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding."


class GlueMetric(evaluate.Metric):
    """config_name is the task. Undefined values are 0, as `harness.evaluation.metrics.score` says."""

    def _info(self) -> evaluate.MetricInfo:
        task = get_task(self.config_name)
        # float64: in float32 the correlations are wrong in the seventh digit.
        scores, classes = datasets.Value("float64"), datasets.Value("int64")
        features = datasets.Features(
            predictions=classes if task.labels else scores, references=classes if task.classification else scores
        )
        return evaluate.MetricInfo(
            description=DESCRIPTION, citation=CITATION, inputs_description=INPUTS, features=features
        )

    def _compute(self, predictions: list[float], references: list[float]) -> dict[str, float]:
        return score(get_task(self.config_name), predictions, references)
