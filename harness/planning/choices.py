"""One choice on every axis of a study: the settings it has, how it starts, and why it may not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.answers import ask, check_layers, described
from harness.contracts import Hyperparameter, LayerMap, ModelInfo, TableRow, Task
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.hyperparameters import Recipe, Values
from harness.planning import merging
from harness.planning.prerequisites import ELSEWHERE, own_name
from harness.planning.request import ResolvedRequest, Variant, by_another_run
from harness.registry import STUDENTS
from harness.runs.settings import SHARED, TRAINING, Settings, refused_rate

VECTORS = "vectors"  # the initialisation whose file is one of word vectors

@dataclass
class Choice:
    """A row with a student (None: the teacher itself), an initialisation and a task, or None for all of them at once.

    fixed: the command line's settings that name one of the cell's; settings: all of them. recipe: of the student's
    family, where the profile leaves it to that. shown, init and by_content:
    the initialisation as tables call it, as the student spells it, and with a file by its content. base: where the
    student's layers learn from, a `pretrained` start counting as random. lengthened: its epochs are twice those of
    others, also where they are searched.
    """

    asked: ResolvedRequest
    row: TableRow
    variant: Variant | None
    task: Task | None
    procedure: Any  # a harness.procedures.base.Procedure, which plans by what is here
    declared: Mapping[str, Hyperparameter]
    fixed: Mapping[str, object] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    refused: str = ""
    shown: str = ""
    init: str = ""
    by_content: str = ""
    recipe: Recipe = field(default_factory=Recipe)
    lengthened: bool = False

    @property
    def student(self) -> Any:
        """The plugin."""
        return self.variant.plugin if self.variant else None

    @property
    def name(self) -> str:
        """That of the plugin."""
        return self.student.name if self.student else ""

    @property
    def called(self) -> str:
        """The student as tables call it."""
        return self.variant.name if self.variant else ""

    @property
    def kind(self) -> str:
        """The initialisation without what follows its colon."""
        return self.init.partition(":")[0]

    @property
    def base(self) -> str:
        return "random" if by_another_run(self.init) else self.init

    @property
    def own(self) -> Values:
        """The student's own settings, without its name before them."""
        return {name: self.settings[f"{self.name}.{name}"] for name in self.student.hyperparameters}

    def describe(self, task: Task) -> ModelInfo:
        """The student on a task. Raises UserError where it says something else than that."""
        teacher = self.asked.info(task)
        own = self.own
        return described(STUDENTS, self.name, "describe", task, lambda: self.student.describe(own, teacher, task))

    def check_layers(self, task: Task) -> None:
        """Raise UserError where the student pairs its layers with none of the teacher's."""
        info, teacher = self.describe(task), self.asked.info(task)
        layers = ask(
            STUDENTS, self.name, "layer_map", LayerMap, lambda: self.student.layer_map(self.base, info, teacher)
        )
        check_layers(STUDENTS, self.name, info, teacher, layers)

    @property
    def only_encoding(self) -> str | None:
        """The student's pair encoding, where that is not one of its settings."""
        return self.student.pair_encodings[0] if len(self.student.pair_encodings) == 1 else None


class Choices:
    """Makes choices. A file's name in tables is kept apart from that of another file of the same name."""

    def __init__(self, asked: ResolvedRequest):
        self.asked = asked
        self._shown: dict[str, str] = {}  # an initialisation's name in tables -> what it is by content

    def choose(self, row: TableRow, variant: Variant | None, init: str, task: Task | None, procedure: Any) -> Choice:
        """Raises UserError for an initialisation that the student does not know, or settings that are not sound."""
        student = variant.plugin if variant else None
        declared: Mapping[str, Hyperparameter] = procedure.declared(student, row.objective, self.asked.study.general)
        if row.teacher and procedure.tunes:  # its recipe is its own
            declared = {name: TRAINING[name] for name in SHARED}
        choice = Choice(self.asked, row, variant, task, procedure, declared, recipe=self.asked.recipe_of(student, task))
        choice.fixed, choice.settings, choice.refused = self._settings(choice)
        if init:
            try:
                choice.shown, choice.init, choice.by_content = self.spelled(student, init)
            except UserError as error:
                choice.shown, choice.init = init, choice.student.canonical_init(init)
                if init != row.init or init in (self.asked.request.inits or ()):
                    raise
                # A file that this row alone asks for: those beside it go on.
                choice.by_content, choice.refused = f"{choice.kind}:unknown", choice.refused or str(error)
            readable = not choice.by_content.endswith(":unknown")
            if not by_another_run(choice.init) and not choice.refused and readable:
                choice.refused = self.refused_start(choice, choice.init)
        return choice

    def refused_start(self, choice: Choice, init: str) -> str:
        """Why the choice's student cannot start so with its settings, from this file or this teacher, or ""."""
        try:  # settings that are sound each by itself, but not together
            refused = choice.student.refuse_init(init, choice.own)
            if init.partition(":")[0] == VECTORS and VECTORS in choice.student.file_inits and not refused:
                self.asked.contents.check_vectors(init, [choice.task.name] if choice.task else self.asked.tasks)
        except UserError as error:
            refused = str(error)
        task = choice.task or get_task(self.asked.tasks[0])
        return refused or choice.student.refuse_teacher(init, choice.own, self.asked.info(task))

    def before_distillation(self, choice: Choice) -> Choice:
        """The same choice with what a distillation on a corpus starts from: the first initialisation of its own."""
        assert choice.variant  # no teacher is distilled
        asked = self.asked.request.inits or self.asked.profile.inits or (choice.recipe.start,)
        inits = (init for init in asked if not by_another_run(init))
        own = next(filter(choice.variant.knows, inits), "random")  # of others, another student's
        return self.choose(choice.row, choice.variant, own, choice.task, choice.procedure)

    def spelled(self, student: Any, init: str) -> tuple[str, str, str]:
        """(what tables call an initialisation, its one spelling, the same with a file by its content)."""
        kind, colon, argument = (part.strip() for part in init.partition(":"))
        if by_another_run(init):
            return init, f"{kind}{colon}{argument}", f"{kind}{colon}{argument}"
        canonical = ask(STUDENTS, student.name, "canonical_init", str, lambda: student.canonical_init(init))
        if kind not in student.file_inits:
            return canonical, canonical, canonical
        contents = self.asked.contents
        content = contents.by_content(canonical, asked=init in (self.asked.request.inits or ()))
        canonical = f"{kind}:{contents.files.get(content.partition(':')[2], canonical.partition(':')[2])}"
        shown = f"{kind}:{Path(argument).name}"
        if self._shown.setdefault(shown, content) != content:  # another file of the same name
            shown = f"{shown} ({content.partition(':')[2][:6]})"
        return shown, canonical, content

    def _settings(self, choice: Choice) -> tuple[Mapping[str, object], Settings, str]:
        """(overrides that name a setting of the cell, by that name; its settings; why the row's own do not apply)."""
        profile, row, student, task = self.asked.profile, choice.row, choice.student, choice.task
        declared = choice.declared

        def named(layer: Mapping[str, object]) -> dict[str, object]:
            """The layer's settings that the cell has; "student.NAME" is the student's own."""
            found = {own_name(student, key): value for key, value in layer.items()}
            return {key: value for key, value in found.items() if key in declared}

        settings_here = [key for key in row.settings if not key.startswith(ELSEWHERE)]
        lacking = sorted(key for key in settings_here if own_name(student, key) not in declared)
        who = student.name if student else "the teacher"
        refused = f"{who} has no setting {lacking[0].rpartition('.')[2]}, as row {row.name} asks" if lacking else ""
        own = choice.variant.settings if choice.variant else {}
        fixed = {key: value for key, value in named(self.asked.overrides).items() if key not in own}
        settings = Settings({name: h.default for name, h in declared.items()})
        by_task = profile.task_settings.get(task.name, {}) if task else {}
        for layer in (choice.recipe.settings, profile.settings, by_task, row.settings, own, fixed):
            settings.update({key: merging.check(key, value, declared) for key, value in named(layer).items()})
        encoding = own_name(student, "student.pair_encoding")
        if encoding in settings and task and not task.pair:
            settings[encoding] = declared[encoding].default  # a single sentence is read in one way
        return fixed, settings, refused or refused_rate(settings)
