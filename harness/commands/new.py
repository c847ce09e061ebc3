"""The command `new`: a plugin file of each kind, which runs as it is and is meant to be filled in."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

from harness import registry
from harness.commands import declared
from harness.commands.view import tell
from harness.errors import UserError
from harness.files import atomic_write

LONGEST = 100  # of a name, and of its file


@dataclass(frozen=True)
class Template:
    """plural: the kind as `harness list` has it. text: NAME stands for the name, CLASS for a class called after it.

    run: what follows `harness run --plugin FILE`; tested: whether `python -m harness.testing` tries it.
    """

    plural: str
    text: str
    run: str
    tested: bool = False


OBJECTIVE = '''"""NAME: say in one sentence what it transfers, and from which paper."""

from harness.contracts import Batch, Outputs, Signal
from harness.registry import objective
from torch import Tensor
from torch.nn.functional import normalize


@objective("NAME", needs={Signal.SENTENCE})
def NAME(student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    """Mean absolute difference of the cosines between the batch's texts; returns a scalar. Put your formula here."""
    ours, theirs = (normalize(side.sentence.flatten(0, -2), dim=-1) for side in (student, teacher))  # (B, D) each
    return (ours @ ours.T - (theirs @ theirs.T).detach()).abs().mean()
'''

STUDENT = '''"""NAME: say in one sentence what it is, and from which paper."""

import torch
from harness.contracts import Hyperparameter, LayerMap, ModelInfo, Outputs, Signal
from harness.errors import UserError
from harness.modeling.bases import Student
from harness.registry import student
from torch import nn

WIDTH = Hyperparameter(64, low=1)


@student("NAME", emits={Signal.LOGITS, Signal.SENTENCE}, hyperparameters={"width": WIDTH})
class CLASS(Student):
    """The mean of the word vectors, and one ReLU layer. Put your architecture here; pairs are read jointly."""

    def __init__(self, config):
        super().__init__(config)  # config.source is the teacher's configuration, with whose tokens it reads
        width = WIDTH.check("NAME.width", config.settings.get("width", WIDTH.default))
        self.words = nn.Embedding(config.source["vocab_size"], width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        if config.outputs:  # otherwise it has no task
            self.head = nn.Linear(width, config.outputs)
        self.post_init()

    def _init_weights(self, module):
        """Everything starts as torch makes it."""

    @classmethod
    def describe(cls, settings, teacher, task):
        width = WIDTH.check("NAME.width", settings.get("width", WIDTH.default))
        return ModelInfo(
            name=cls.name, layers=1, width=width, heads=0, vocabulary=teacher.vocabulary, labels=task.outputs,
            emits=cls.emits, tokenizer=teacher.tokenizer,
        )

    @classmethod
    def canonical_init(cls, init):
        if init.strip() != "random":
            raise UserError(f"{cls.name} starts from random weights alone, not from {init!r}: say random")
        return "random"

    @classmethod
    def layer_map(cls, init, student, teacher):
        return LayerMap(((1, teacher.layers),))  # its only layer learns from the teacher's last

    def initialise(self, init, teacher, tokenizer):
        self.canonical_init(init)
        return {}

    def forward(self, batch, want):
        """Gives the signals that are wanted and no others."""
        mask = batch.mask.unsqueeze(-1)  # (B, L, 1)
        words = self.words(batch.encodings[0]["input_ids"])  # (B, L, D)
        sentence = self.body((words * mask).sum(1) / mask.sum(1).clamp(min=1))  # (B, D)
        return Outputs(
            sentence=sentence if want.sentence else None,
            logits=self.head(sentence) if want.logits else None,
        )
'''

TEACHER = '''"""NAME: say in one sentence which model it is, and from where."""

from harness.registry import teacher
from harness.teachers.huggingface import HuggingFaceTeacher

MODEL = "prajjwal1/bert-tiny"  # a name on the hub, or a folder with config.json, tokenizer files and weights


@teacher("NAME")
class CLASS(HuggingFaceTeacher):
    """MODEL, or what stands behind the colon of `--teacher NAME:FOLDER`. Say what is to be known of it."""

    def __init__(self, argument=""):
        super().__init__(argument or MODEL)

    def recipe(self, task):
        """Settings that it is fine-tuned best with, where --set teacher.KEY=VALUE says no other."""
        return {"learning_rate": 3e-5}
'''

STUDY = '''"""NAME: say what it asks, and of which paper."""

from harness.contracts import Profile, Row, Study
from harness.registry import study

study(
    Study(
        name="NAME",
        title="Two ways to learn from a teacher",
        question="Does a student learn more from the hidden states or from the answers?",
        procedure="two_stage",
        rows=(
            Row("labels_only", "labels_only", "Labels only"),
            Row("vanilla_kd", "vanilla_kd", "Vanilla KD", equal_epochs=True),  # as many as two stages have together
            Row("hid_cls", "hid_cls", "Hid-CLS"),
        ),
        students=("transformer",),
        profiles={
            "quick": Profile("embedded", ("sentiment",), ("every", "random"), trials=1, seeds=2),
            "small": Profile("minilm", ("sst2", "mrpc"), ("every", "random"), trials=2, seeds=3),
        },
    )
)
'''

PROCEDURE = '''"""NAME: say in one sentence how it trains, and from which paper."""

from harness.contracts import Profile, Row, Study
from harness.procedures.base import PlannedStage, procedure
from harness.procedures.labelled import OneStage
from harness.registry import study


@procedure("NAME")
class CLASS(OneStage):
    """By the labels alone, then by the row's objective. Say here which stages yours has."""

    def objectives(self, objective):
        return ("labels_only", objective)

    def stages(self, objective, layers):
        first, last = self.objectives(objective)
        before = PlannedStage("labels", first, layers, selects=False)
        return [before, PlannedStage("prediction", last, layers, selects=True)]


study(
    Study(
        name="NAME",
        title="A new procedure",
        question="Does a student learn better by it than in one stage?",
        procedure="one_stage",
        rows=(
            Row("kd", "vanilla_kd", "Vanilla KD"),
            Row("NAME_kd", "vanilla_kd", "Vanilla KD, by NAME", procedure="NAME"),
        ),
        students=("transformer",),
        profiles={"quick": Profile("embedded", ("sentiment",), ("every", "random"), trials=1, seeds=2)},
    )
)
'''

TASK = '''"""NAME: say in one sentence what is asked, and where the examples are from."""

from harness.contracts import Task
from harness.data.sources import TaskSource, task_source

TASK = Task("NAME", "NAME", "accuracy", ("accuracy",), labels=("bad", "good"))
WORDS = {"bad": ("awful", "dull", "weak", "sad"), "good": ("great", "lovely", "funny", "warm")}


@task_source("NAME", tasks=(TASK,))
class CLASS(TaskSource):
    """Sentences made of a few words. Put your examples here: where each stands, its texts, its label."""

    def examples(self, task, split):
        things = ("film", "story", "song", "play") if split == "train" else ("book", "film")
        number = 0
        for label, words in WORDS.items():
            for thing in things:
                for first in words:
                    for second in words:
                        number += 1
                        yield f"NAME, {split} example {number}", [f"the {thing} was {first} and {second} ."], label
'''

TEMPLATES = {
    "objective": Template(
        "objectives", OBJECTIVE, "--study objectives_vs_init --objectives vanilla_kd_equal_epochs NAME", tested=True
    ),
    "student": Template(
        "students",
        STUDENT,
        "--study objectives_vs_init --students NAME --inits random --objectives vanilla_kd_equal_epochs cosine",
        tested=True,
    ),
    "teacher": Template("teachers", TEACHER, "--study objectives_vs_init --profile small --teacher NAME --tasks sst2"),
    "task": Template(
        "tasks", TASK, "--study objectives_vs_init --tasks NAME --objectives vanilla_kd_equal_epochs hid_cls"
    ),
    "study": Template("studies", STUDY, "--study NAME"),
    "procedure": Template("procedures", PROCEDURE, "--study NAME"),
}


def new(options: Namespace) -> int:
    """Write a plugin file into the current folder. Raises UserError rather than write over a file."""
    kind, name, path = options.kind, options.name, Path(f"{options.name}.py")
    template, what = TEMPLATES[kind], f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot name {what}: use letters, digits and underscores, not a digit first")
    if iskeyword(name):
        raise UserError(f"{name!r} cannot name {what}: it is a word of Python's own")
    if len(name) > LONGEST:
        raise UserError(f"{name!r} is too long to name a file: the name of {what} has at most {LONGEST} letters")
    if path.exists():
        raise UserError(f"{path} exists already; choose another name or remove it")
    kinds = {template.plural, *(plural for plural in ("studies",) if "study(" in template.text)}
    for plural in sorted(kinds):
        if name in dict(declared.lines(plural)):
            found = registry.ALL[plural]
            raise UserError(f"{found.kind} {name!r} exists already, in {found.origin(name)}")
    atomic_write(path, _filled(template.text, name).encode())
    tell(f"{path} written. It works as it is; fill it in, then:")
    if template.tested:
        tell(f"  python -m harness.testing {path}")
    tell(f"  harness run --plugin {path} {_filled(template.run, name)}")
    tell(
        f"or move it into {template.plural}/ to make it part of every study's choice."
        if kind != "study"
        else "or move it into studies/, where no --plugin is needed."
    )
    return 0


def _filled(text: str, name: str) -> str:
    camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    called = f"{camel}Plugin" if camel.isidentifier() else f"Plugin{camel}"
    return text.replace("CLASS", called).replace("NAME", name)
