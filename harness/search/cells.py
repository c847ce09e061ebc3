"""The cells of a study: what each trains or measures, what it waits for, and why some cannot exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import pairing, registry
from harness.contracts import Hyperparameter, LayerMap, ModelInfo, Row, Task, Want
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.ledger import digest, identity
from harness.modeling import combine
from harness.search import settings as merging
from harness.search.making import Making
from harness.search.request import Asked
from harness.training.augmented import MASKED
from harness.training.augmented import check as check_augmentation
from harness.training.settings import GENERAL, PREDICTION, SPEED_SETTINGS, TRAINING

PRETRAINED = "pretrained"  # the initialisation by general distillation, or by the run named after a colon


def declared_by(student: Any, objective: str, procedure: str) -> dict[str, Hyperparameter]:
    """Every setting that a cell of this student and objective has, its general distillation included."""
    own = {f"{student.name}.{name}": h for name, h in student.hyperparameters.items()}
    if procedure in ("count", "speed"):
        return own | (SPEED_SETTINGS if procedure == "speed" else {})
    terms = combine.parse(objective)
    declared = TRAINING | own | combine.declared(terms)
    if procedure == "two_stage" and combine.stage(terms) == "intermediate":
        declared |= combine.declared(combine.parse(PREDICTION))
    return declared | combine.declared(combine.parse(GENERAL))


class Cells:
    """Collects the cells of a plan.

    wants: the teacher signals asked for, by task. used: the overrides that reached a cell. sources: content -> the
    teacher and argument of a checkpoint that is fine-tuned as it is.
    """

    def __init__(
        self,
        asked: Asked,
        making: Making,
        teachers: Mapping[str, str],
        checkpoints: Mapping[str, str],
        defaults: Mapping[str, Any],
    ):
        self.asked, self.making, self.teachers = asked, making, teachers
        self.checkpoints, self.defaults = checkpoints, defaults
        self.found: list[dict[str, Any]] = []
        self.inits: list[str] = []
        self.wants: dict[str, Want] = {}
        self.used: set[str] = set()
        self.sources: dict[str, list[str]] = {}
        self._places: set[tuple[str, ...]] = set()
        self._shown: dict[str, str] = {}  # an initialisation's name in tables -> what it is by content

    def add(self, row: Row, task: Task) -> None:
        """Add the row's cells on a task: one for each student and initialisation that it leaves free."""
        procedure = row.procedure or self.asked.study.procedure
        if row.tasks and task.name not in row.tasks:
            return
        if row.checkpoint and not self.asked.measured:
            self._fine_tuned(row, task)
            return
        if row.checkpoint:
            self._measured(None, row, task, procedure)
            return
        for student in self.asked.students_of(row):
            if self.asked.measured:
                self._measured(student, row, task, procedure)
                continue
            for init in self.asked.inits_of(row):
                self._trained(student, init, row, task, procedure)

    # ------------------------------------------------------------ cells that train a student

    def _trained(self, student: Any, init: str, row: Row, task: Task, procedure: str) -> None:
        declared = declared_by(student, row.objective, procedure)
        fixed, settings, refused = self._settings(student, row, task, declared)
        shown, given, by_content = self._init(student, init)
        if (place := (student.name, by_content, row.name, task.name)) in self._places:
            return  # two spellings of one initialisation
        self._places.add(place)
        general, pretrained = procedure == "general", given.partition(":")[0] == PRETRAINED
        if general and pretrained:
            raise UserError(f"row {row.name} is distilled on the corpus itself, so it cannot start from {init}")
        base, metric = "random" if pretrained else given, self.asked.study.shown(task)[0]
        own, teacher = _own(student, settings), self.asked.teacher.info(task)
        try:
            refused = refused or ("" if pretrained else student.refuse_init(given, own))
            described: ModelInfo = student.describe(own, teacher, task)
        except UserError as error:  # settings that are sound each by itself, but not together
            refused, described = refused or str(error), teacher
        self.inits += [shown] if shown not in self.inits else []
        if refused:
            nothing = {"metric": metric, "settings": settings}
            self._add(row, student.name, shown, task, nothing, declared, refused=refused)
            return
        layers: LayerMap = student.layer_map(base, described, teacher)
        # In the procedure `general` the row's objective trains on the corpus, and the labels alone on the task.
        objective = "labels_only" if general else combine.canonical(row.objective)
        terms = combine.parse(objective)
        refused = pairing.refusal(objective, "one_stage" if general else procedure, described, teacher, task)
        on_corpus = combine.canonical(row.objective if general else GENERAL)
        distilled = general or given == PRETRAINED
        if distilled and not refused:
            refused = self._refused_on_corpus(student, on_corpus, settings)
        stages = [terms]
        if procedure == "two_stage" and combine.stage(terms) == "intermediate":
            stages.append(combine.parse(PREDICTION))
        elif procedure == "two_stage" and row.equal_epochs:
            settings["epochs"] *= 2
        want = Want()
        for stage in stages:
            want |= combine.wants(stage, described, teacher, layers)[1]
        after: list[str] = []
        if distilled and not refused:
            start = "random" if pretrained else by_content
            run = self.making.general(student, start, on_corpus, self._of_general(student, on_corpus, settings))
            after.append(run)
            by_content = f"{PRETRAINED}:{run}"
        alone = by_content.startswith(PRETRAINED) and not want.parts()  # the teacher is gone
        if not alone:
            after.append(self.teachers[task.name])
        specification = {
            "kind": "student",
            "task": task.name,
            "data": self.asked.contents.data(task),
            "teacher": self.making.who()[0] if alone else self.teachers[task.name],
            "student": student.name,
            "init": by_content,
            "objective": objective,
            "procedure": "one_stage" if general else procedure,
            "metric": metric,
            "settings": self._of_task(student, objective, procedure, settings),
        }
        if len(student.pair_encodings) == 1:  # otherwise it is a setting
            specification["pair_encoding"] = student.pair_encodings[0]
        after += self._augmented(specification)
        sizes = {"layers": described.layers, "width": described.width}
        self._add(
            row, student.name, shown, task, specification, declared, fixed, after, refused, len(stages), layers, sizes
        )
        if not refused:
            idle = {setting for stage in stages for setting in combine.idle(stage, task)}
            idle |= self._only_general(objective) - (self._declared_on_corpus(on_corpus) if distilled else set())
            self._use(fixed, settings, student, task, idle)
            self.wants[task.name] = self.wants.get(task.name, Want()) | want

    def _refused_on_corpus(self, student: Any, objective: str, settings: Mapping[str, Any]) -> str:
        teacher = self.asked.teacher.info(CORPUS)
        described = student.describe(_own(student, settings), teacher, CORPUS)
        return pairing.refusal(objective, "general", described, teacher, CORPUS)

    def _of_general(self, student: Any, objective: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a cell that its general distillation depends on."""
        names = {f"{student.name}.{n}" for n in set(student.hyperparameters) - student.head_settings}
        return {name: settings[name] for name in sorted(names | self._declared_on_corpus(objective))}

    def _of_task(self, student: Any, objective: str, procedure: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a cell that act on the task: those of an objective on the corpus do not."""
        names = set(declared_by(student, objective, procedure)) - self._only_general(objective)
        return {name: value for name, value in settings.items() if name in names}

    def _augmented(self, specification: dict[str, Any]) -> list[str]:
        """Write into the specification what its augmentation is by content; the runs that it waits for."""
        settings = specification["settings"]
        check_augmentation(settings["augmentation"])
        if ":" in settings["augmentation"]:
            settings["augmentation"] = self.asked.contents.by_content(settings["augmentation"])
        if not settings["augmentation"].startswith(MASKED):
            return []
        specification["masked_teacher"], after = self.making.masked()
        return after

    @staticmethod
    def _declared_on_corpus(objective: str) -> set[str]:
        return set(combine.declared(combine.parse(objective)))

    def _only_general(self, objective: str) -> set[str]:
        """The settings of the usual general distillation that the task's own objective has not."""
        return self._declared_on_corpus(GENERAL) - self._declared_on_corpus(objective)

    def _init(self, student: Any, init: str) -> tuple[str, str, str]:
        """(what tables call an initialisation, its one spelling, the same with a file by its content)."""
        kind, colon, argument = (part.strip() for part in init.partition(":"))
        if kind == PRETRAINED:
            return init, f"{kind}{colon}{argument}", f"{kind}{colon}{argument}"
        canonical = student.canonical_init(init)
        if kind not in student.file_inits:
            return canonical, canonical, canonical
        content = self.asked.contents.by_content(canonical)
        shown = f"{kind}:{Path(argument).name}"
        if self._shown.setdefault(shown, content) != content:  # another file of the same name
            shown = f"{shown} ({content.partition(':')[2][:6]})"
        return shown, canonical, content

    def _settings(
        self, student: Any, row: Row, task: Task, declared: Mapping[str, Hyperparameter]
    ) -> tuple[dict[str, str], dict[str, Any], str]:
        """(overrides that name a setting of the cell, by that name; its settings; why the row's own do not apply)."""
        profile = self.asked.profile

        def named(layer: Mapping[str, Any]) -> dict[str, Any]:
            """The layer's settings that the cell has; "student.NAME" is the student's own."""
            found = {own_name(student, key): value for key, value in layer.items()}
            return {key: value for key, value in found.items() if key in declared}

        lacking = sorted(key for key in row.settings if own_name(student, key) not in declared)
        refused = (
            f"{student.name} has no setting {lacking[0].rpartition('.')[2]}, as row {row.name} asks" if lacking else ""
        )
        fixed = named(self.asked.overrides)
        settings: dict[str, Any] = {name: h.default for name, h in declared.items()}
        for layer in (profile.settings, profile.task_settings.get(task.name, {}), row.settings, fixed):
            settings |= {key: merging.check(key, value, declared) for key, value in named(layer).items()}
        encoding = own_name(student, "student.pair_encoding")
        if encoding in settings and not task.pair:
            settings[encoding] = declared[encoding].default  # a single sentence is read in one way
        return fixed, settings, refused

    def _use(
        self, fixed: Mapping[str, str], settings: Mapping[str, Any], student: Any, task: Task, idle: set[str]
    ) -> None:
        """Note which overrides had an effect; those of `idle` had none."""
        idle = set(idle)
        if settings.get("augmentation") == "none":
            idle |= {"augmentation_copies", "augmentation_probability"}
        if not task.pair:
            idle.add(own_name(student, "student.pair_encoding"))
        effective = set(fixed) - idle
        self.used |= {key for key in self.asked.overrides if own_name(student, key) in effective}

    # ------------------------------------------------------------ checkpoints that are fine-tuned as they are

    def _fine_tuned(self, row: Row, task: Task) -> None:
        source = registry.TEACHERS.get("huggingface")(self.checkpoints[row.name])
        who = {"name": source.name, "content": self.asked.contents.teacher(source)}
        self.sources[who["content"]] = [source.name, source.argument]
        declared = {name: h for name, h in TRAINING.items() if not name.startswith("augmentation")}
        fixed, settings, _ = self._settings(None, row, task, declared)
        specification = {
            "kind": "checkpoint",
            "task": task.name,
            "data": self.asked.contents.data(task),
            "teacher": who,
            "metric": self.asked.study.shown(task)[0],
            "settings": settings,
        }
        info = source.info(task)
        self._add(row, "", "", task, specification, declared, fixed, size={"layers": info.layers, "width": info.width})
        self.used |= set(fixed)

    # ------------------------------------------------------------ cells that measure

    def _measured(self, student: Any, row: Row, task: Task, procedure: str) -> None:
        """A cell that builds a model of random weights, a student or (None) a checkpoint: it reads configurations."""
        source, name = self.asked.teacher, student.name if student else ""
        if student is None:
            source = registry.TEACHERS.get("huggingface")(row.checkpoint)
        own = {f"{name}.{n}": h for n, h in student.hyperparameters.items()} if student else {}
        declared = own | (SPEED_SETTINGS if procedure == "speed" else {})
        fixed, settings, refused = self._settings(student, row, task, declared)
        specification: dict[str, Any] = {
            "kind": procedure,
            "task": task.name,
            "student": name,
            "configuration": _shape(source),
            "metric": self.asked.study.shown(task)[0],
            "settings": settings,
        }
        if procedure == "speed":
            reference = next(r.checkpoint for r in self.asked.study.rows if r.checkpoint)
            specification["reference"] = _shape(registry.TEACHERS.get("huggingface")(reference))
        self._add(row, name, "", task, specification, {}, fixed, refused=refused)
        self._use(fixed, settings, student, task, set())

    # ------------------------------------------------------------ shared

    def _add(
        self,
        row: Row,
        student: str,
        init: str,
        task: Task,
        specification: dict[str, Any],
        declared: Mapping[str, Hyperparameter],
        fixed: Mapping[str, Any] | None = None,
        after: Sequence[str] = (),
        refused: str = "",
        stages: int = 1,
        layers: LayerMap | None = None,
        size: Mapping[str, int] | None = None,
    ) -> None:
        space = merging.space_of(self._search(student, task), declared, fixed or {})
        self.found.append(
            {
                "id": digest([identity(specification, self.defaults), space, *([row.name] if refused else [])])[:16],
                "row": row.name,
                "student": student,
                "init": init,
                "task": task.name,
                "metric": specification["metric"],
                "refused": refused,
                "stages": stages,
                "specification": specification,
                "space": space,
                "after": list(after),
                "layers": [list(pair) for pair in layers.pairs] if layers else [],
                "size": size or {"layers": 0, "width": 0},
                "trials": self.asked.request.trials or self.asked.profile.trials,
                "seeds": self.asked.request.seeds or self.asked.profile.seeds,
            }
        )

    def _search(self, student: str, task: Task) -> dict[str, Any]:
        """The profile's search space, "student.NAME" being the student's own, without what does nothing on the task."""
        space = {
            f"{student}.{key.removeprefix('student.')}" if key.startswith("student.") else key: values
            for key, values in self.asked.profile.search.items()
        }
        return {key: v for key, v in space.items() if task.pair or not key.endswith(".pair_encoding")}


def own_name(student: Any, key: str) -> str:
    """A setting of "student.NAME" as the student's own; any other as it is."""
    return f"{student.name}.{key.removeprefix('student.')}" if student and key.startswith("student.") else key


def _own(student: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[f"{student.name}.{name}"] for name in student.hyperparameters}


def _shape(source: Any) -> dict[str, Any]:
    """A model's configuration without what says only where and by whom it was written."""
    dropped = ("transformers_version", "_name_or_path", "architectures")
    return {name: value for name, value in source.configuration().items() if name not in dropped}
