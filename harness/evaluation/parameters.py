"""How many parameters a model has. On the meta device a model of any size is built, and counted, without memory."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn
from transformers import PreTrainedModel

from harness import registry
from harness.errors import unknown
from harness.hyperparameters import Values
from harness.modeling.bases import Student, StudentConfig


def build_student(
    name: str, settings: Values, source: Mapping[str, object], outputs: int, pairs: bool = False
) -> Student:
    """The student called `name` with random weights, on torch's current device; reads no weights.

    settings are hyperparameters without the student's name before them; source is the teacher's Hugging Face
    configuration, whose vocabulary stands for one made of training texts; outputs is the task's width and pairs says
    that its examples are pairs. Raises UserError for an unknown student, setting or value.
    """
    plugin = registry.STUDENTS.get(name)
    for setting in settings:
        if setting not in plugin.hyperparameters:
            raise unknown(f"setting of student {name}", setting, plugin.hyperparameters)
    own = plugin.checked(settings)
    return plugin(StudentConfig(student=name, settings=own, source=dict(source), outputs=outputs, pairs=pairs))


def count(model: PreTrainedModel) -> dict[str, int]:
    """Trainable parameters, each counted once however often it is used.

    classifier_parameters are those that answer the task: a student's `head_weights`, of another model everything
    outside its encoder. parameters_without_embeddings leaves out every look-up table, that of positions included.
    """
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if isinstance(model, Student):
        head = model.head_weights()
        classifier = [p for name, p in trainable.items() if name in head]
    else:
        encoder = {id(p) for p in model.base_model.parameters()}
        classifier = [p for p in trainable.values() if id(p) not in encoder]
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    return {
        "parameters": sum(p.numel() for p in trainable.values()),
        "classifier_parameters": sum(p.numel() for p in classifier),
        "parameters_without_embeddings": sum(p.numel() for p in trainable.values() if id(p) not in tables),
    }
