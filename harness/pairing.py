"""Can this objective train this student from this teacher on this task? Answered without loading weights."""

from __future__ import annotations

from collections.abc import Mapping

from harness import combine
from harness.contracts import LayerMap, ModelInfo, Signal, Task
from harness.registry import OBJECTIVES, PROCEDURES


def refusal(objective: str, procedure: str, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
    """The reason why the pair cannot be trained so, as one sentence, or "" if it can.

    procedure: that of the stages on a task; "" on a corpus, of which student, teacher and task are then.
    Raises UserError if `objective` is no objective or sum of objectives.
    """
    terms = combine.parse(objective)
    for _, name in terms:
        plugin = OBJECTIVES.get(name)
        for who, model in (("student", student), ("teacher", teacher)):
            missing = sorted(s.value for s in plugin.needs - model.emits)
            if missing:
                why = next((f": {model.lacks[signal]}" for signal in missing if signal in model.lacks), "")
                return f"{name} needs {' and '.join(missing)}, which the {who} {model.name} does not emit{why}"
        if task.corpus and Signal.LOGITS in plugin.needs:
            return f"{name} needs the labels' logits, which a corpus has not; corpus distillation transfers the rest"
        if not task.corpus and Signal.MLM_LOGITS in plugin.needs:
            return f"{name} needs masked text, which the procedure general has, not a labelled task"
        if not task.labelled and plugin.needs_labels:
            return f"{name} needs labels, and is to be trained without"
        if task.ranking and Signal.LOGITS in plugin.needs and not plugin.ranks:
            return f"{name} compares the logits of classes, but {task.name} has one score a candidate, which are ranked"
        if plugin.token_level and student.tokenizer != teacher.tokenizer:
            return f"{name} compares token by token, but {student.name} and {teacher.name} split text differently"
        if plugin.token_level and student.pair_encoding != teacher.pair_encoding and task.pair:
            return (
                f"{name} compares token by token, but {student.name} reads a pair as {student.pair_encoding} "
                f"and {teacher.name} as {teacher.pair_encoding}"
            )
        if Signal.SENTENCE in plugin.needs and student.pair_encoding != teacher.pair_encoding and task.pair:
            return (
                f"{name} compares sentence vectors, but of a pair {student.name} has two ({student.pair_encoding}) "
                f"and {teacher.name} one ({teacher.pair_encoding})"
            )
    if procedure and (refused := PROCEDURES.get(procedure).refuse(objective)):
        return refused
    return combine.refuse(terms, student, teacher, task)


def refusal_of_layers(objective: str, layers: LayerMap, built_like: Mapping[int, int], teacher: ModelInfo) -> str:
    """Why a student's attention cannot be that of the teacher's layers, as one sentence, or "".

    built_like: see `Student.built_like`. A window in one and none in the other cannot be trained away.
    """
    names = [name for _, name in combine.parse(objective) if Signal.ATTENTION_SCORES in OBJECTIVES.get(name).needs]
    for ours, theirs in layers.pairs if names and teacher.traits else ():
        own, given = teacher.traits[built_like.get(ours, theirs) - 1], teacher.traits[theirs - 1]
        for trait in sorted(own):
            if "window" in trait and own[trait] != given[trait]:
                return (
                    f"{names[0]} compares layer {ours} of the student with layer {theirs} of {teacher.name}, which "
                    f"sees other tokens: its {trait} is {given[trait]}, the student's {own[trait]}; a student that "
                    "starts from the teacher's layers is built like them"
                )
    return ""
