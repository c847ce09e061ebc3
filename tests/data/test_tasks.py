import subprocess
import sys

import pytest

from harness.data.tasks import get_task
from harness.errors import UserError
from harness.registry import TASKS


def test_names_and_metrics_are_consistent():
    assert len(TASKS.names()) == 16
    for name in TASKS.names():
        task = TASKS.get(name)
        assert task.name == name
        assert task.metric in task.metrics
        assert len(set(task.labels)) == len(task.labels)


def test_widths_of_the_logits():
    widths = {name: get_task(name).outputs for name in TASKS.names() if get_task(name).outputs != 2}
    assert widths == {"stsb": 1, "similarity": 1, "stsb_classes": 21, "mnli": 3, "qnli_ranking": 1}
    assert get_task("stsb_classes").bins[0] == 1.0 and get_task("stsb_classes").bins[-1] == 5.0


def test_unknown_task_suggests_near_names():
    with pytest.raises(UserError, match="unknown task 'sst-2': did you mean .*sst2.*; name .* with --tasks NAME=PATH"):
        get_task("sst-2")


def test_tasks_and_sources_load_no_heavy_library():
    code = (
        "import sys, harness.data.sources, harness.data.tasks, harness.evaluation.metrics;"
        "heavy = {'torch', 'transformers', 'datasets', 'sklearn', 'scipy', 'pandas', 'evaluate'} & set(sys.modules);"
        "print(*heavy)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
