"""The cells of a study: what each trains or measures, what it waits for, and why some cannot exist."""

from __future__ import annotations

from collections.abc import Mapping
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

    def add(self, row: Row, task: Task) -> None:
        """Add the row's cells on a task: one for each student and initialisation that it leaves free."""
        procedure = row.procedure or self.asked.study.procedure
        if row.tasks and task.name not in row.tasks:
            return
        if row.checkpoint:
            add = self._measured_checkpoint if self.asked.measured else self._fine_tuned
            add(row, task, procedure)
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
        fixed, settings = self._settings(student, row, task, declared)
        general = procedure == "general"
        shown, canonical = self._init(student, init)
        if (place := (student.name, shown, row.name, task.name)) in self._places:
            return  # two spellings of one initialisation
        self._places.add(place)
        pretrained = canonical.partition(":")[0] == PRETRAINED
        if general and pretrained:
            raise UserError(f"row {row.name} is distilled on the corpus itself, so it cannot start from {init}")
        base, metric = "random" if pretrained else canonical, self.asked.study.shown(task)[0]
        teacher: ModelInfo = self.asked.teacher.info(task)
        try:
            described: ModelInfo = student.describe(_own(student, settings), teacher, task)
        except UserError as error:  # settings that are sound each by itself, but not together
            self._add(
                row,
                student.name,
                shown,
                task,
                str(error),
                1,
                {"metric": metric, "settings": settings},
                declared,
                fixed,
                [],
            )
            return
        layers: LayerMap = student.layer_map(base, described, teacher)
        # In the procedure `general` the row's objective trains on the corpus, and the labels alone on the task.
        objective = "labels_only" if general else combine.canonical(row.objective)
        terms = combine.parse(objective)
        refused = pairing.refusal(objective, "one_stage" if general else procedure, described, teacher, task)
        on_corpus = combine.canonical(row.objective if general else GENERAL)
        distilled = general or canonical == PRETRAINED
        if distilled and not refused:
            refused = self._refused_on_corpus(student, on_corpus, settings)
        stages = 2 if procedure == "two_stage" and combine.stage(terms) == "intermediate" else 1
        if row.equal_epochs and stages == 1 and procedure == "two_stage":
            settings["epochs"] *= 2
        trained = [terms, combine.parse(PREDICTION)][:stages]
        want = Want()
        for objectives in trained:
            want |= combine.wants(objectives, described, teacher, layers)[1]
        after: list[str] = []
        if distilled and not refused:
            run = self.making.general(student, base, on_corpus, self._of_general(student, on_corpus, settings))
            after.append(run)
            canonical = f"{PRETRAINED}:{run}"
        alone = canonical.startswith(PRETRAINED) and not want.parts()  # the teacher is gone
        if not alone:
            after.append(self.teachers[task.name])
        augmentation = self.asked.contents.by_content(settings["augmentation"])
        check_augmentation(augmentation, self.asked.contents.files)
        specification = {
            "kind": "student",
            "task": task.name,
            "data": self.asked.contents.data(task),
            "teacher": self.making.who()[0] if alone else self.teachers[task.name],
            "student": student.name,
            "init": self.asked.contents.by_content(canonical),
            "objective": objective,
            "procedure": "one_stage" if general else procedure,
            "metric": metric,
            "settings": self._of_task(student, objective, procedure, settings) | {"augmentation": augmentation},
        }
        if len(student.pair_encodings) == 1:  # otherwise it is a setting
            specification["pair_encoding"] = student.pair_encodings[0]
        if augmentation.startswith("masked_language_model"):
            specification["masked_teacher"], makes = self.making.masked()
            after += makes
        self._add(row, student.name, shown, task, refused, stages, specification, declared, fixed, after)
        self.found[-1] |= {
            "layers": [list(pair) for pair in layers.pairs],
            "size": {"layers": described.layers, "width": described.width},
        }
        self.inits += [shown] if shown not in self.inits else []
        if not refused:
            idle = {setting for objectives in trained for setting in combine.idle(objectives, task)}
            idle |= set() if distilled else self._only_general(objective)
            self._use(fixed, settings, student, task, idle)
            self.wants[task.name] = self.wants.get(task.name, Want()) | want

    def _refused_on_corpus(self, student: Any, objective: str, settings: Mapping[str, Any]) -> str:
        teacher = self.asked.teacher.info(CORPUS)
        described = student.describe(_own(student, settings), teacher, CORPUS)
        return pairing.refusal(objective, "general", described, teacher, CORPUS)

    def _of_general(self, student: Any, objective: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a cell that its general distillation depends on."""
        names = {f"{student.name}.{n}" for n in set(student.hyperparameters) - student.head_settings}
        names |= set(combine.declared(combine.parse(objective)))
        return {name: settings[name] for name in sorted(names)}

    def _of_task(self, student: Any, objective: str, procedure: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a cell that act on the task: those of an objective on the corpus do not."""
        names = set(declared_by(student, objective, procedure)) - self._only_general(objective)
        return {name: value for name, value in settings.items() if name in names}

    @staticmethod
    def _only_general(objective: str) -> set[str]:
        """The settings of the usual general distillation that the task's own objective has not."""
        return set(combine.declared(combine.parse(GENERAL))) - set(combine.declared(combine.parse(objective)))

    def _init(self, student: Any, init: str) -> tuple[str, str]:
        """(what tables call an initialisation, its one spelling)."""
        kind, colon, argument = (part.strip() for part in init.partition(":"))
        if kind == PRETRAINED:
            return init, f"{kind}{colon}{argument}"
        canonical = student.canonical_init(init)
        named = Path(argument).expanduser()
        return (f"{kind}:{named.name}" if colon and named.is_file() else canonical), canonical

    def _settings(
        self, student: Any, row: Row, task: Task, declared: Mapping[str, Hyperparameter]
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """(overrides that name a setting of the cell, by that name; the settings of the cell)."""
        profile = self.asked.profile

        def named(layer: Mapping[str, Any]) -> dict[str, Any]:
            """The layer's settings that the cell has; "student.NAME" is the student's own."""
            found = {}
            for key, value in layer.items():
                kind, _, name = key.partition(".")
                own = f"{student.name}.{name}" if kind == "student" and student else key
                if own in declared:
                    found[own] = value
            return found

        fixed = named(self.asked.overrides)
        settings: dict[str, Any] = {name: h.default for name, h in declared.items()}
        for layer in (profile.settings, profile.task_settings.get(task.name, {}), row.settings, fixed):
            settings |= {key: merging.check(key, value, declared) for key, value in named(layer).items()}
        encoding = f"{student.name}.pair_encoding" if student else ""
        if encoding in settings and not task.pair:
            settings[encoding] = declared[encoding].default  # a single sentence is read in one way
        return fixed, settings

    def _use(
        self, fixed: Mapping[str, str], settings: Mapping[str, Any], student: Any, task: Task, idle: set[str]
    ) -> None:
        """Note which overrides had an effect; those of `idle` had none."""
        idle = set(idle)
        if settings["augmentation"] == "none":
            idle |= {"augmentation_copies", "augmentation_probability"}
        if not task.pair:
            idle.add(f"{student.name}.pair_encoding")
        effective = set(fixed) - idle
        short = {f"student.{key.partition('.')[2]}" for key in effective if key.startswith(f"{student.name}.")}
        self.used |= effective | short

    # ------------------------------------------------------------ checkpoints that are fine-tuned as they are

    def _fine_tuned(self, row: Row, task: Task, procedure: str) -> None:
        source = registry.TEACHERS.get("huggingface")(self.checkpoints[row.name])
        who = {"name": source.name, "content": self.asked.contents.teacher(source)}
        self.sources[who["content"]] = [source.name, source.argument]
        fixed, settings = self._settings(None, row, task, TRAINING)
        specification = {
            "kind": "checkpoint",
            "task": task.name,
            "data": self.asked.contents.data(task),
            "teacher": who,
            "metric": self.asked.study.shown(task)[0],
            "settings": settings,
        }
        self._add(row, "", "", task, "", 1, specification, TRAINING, fixed, [])
        self.found[-1] |= {"layers": [], "size": {"layers": source.info(task).layers, "width": source.info(task).width}}
        self.used |= set(fixed)

    # ------------------------------------------------------------ cells that measure

    def _measured(self, student: Any, row: Row, task: Task, procedure: str) -> None:
        fixed, settings = self._settings(student, row, task, declared_by(student, "", procedure))
        self._add_measured(row, student.name, self.asked.teacher, task, procedure, fixed, settings)
        short = {f"student.{key.partition('.')[2]}" for key in fixed if key.startswith(f"{student.name}.")}
        self.used |= set(fixed) | short

    def _measured_checkpoint(self, row: Row, task: Task, procedure: str) -> None:
        source = registry.TEACHERS.get("huggingface")(row.checkpoint)
        fixed, settings = self._settings(None, row, task, SPEED_SETTINGS if procedure == "speed" else {})
        self._add_measured(row, "", source, task, procedure, fixed, settings)
        self.used |= set(fixed)

    def _add_measured(
        self,
        row: Row,
        student: str,
        source: Any,
        task: Task,
        procedure: str,
        fixed: Mapping[str, str],
        settings: dict[str, Any],
    ) -> None:
        """A cell that builds a model of random weights: its configuration is all that is read."""
        specification: dict[str, Any] = {
            "kind": procedure,
            "task": task.name,
            "student": student,
            "configuration": _shape(source),
            "metric": self.asked.study.shown(task)[0],
            "settings": settings,
        }
        if procedure == "speed":
            reference = next(r.checkpoint for r in self.asked.study.rows if r.checkpoint)
            specification["reference"] = _shape(registry.TEACHERS.get("huggingface")(reference))
        self._add(row, student, "", task, "", 1, specification, {}, fixed, [])
        self.found[-1] |= {"layers": [], "size": {"layers": 0, "width": 0}}

    # ------------------------------------------------------------ shared

    def _add(
        self,
        row: Row,
        student: str,
        init: str,
        task: Task,
        refused: str,
        stages: int,
        specification: dict[str, Any],
        declared: Mapping[str, Hyperparameter],
        fixed: Mapping[str, Any],
        after: list[str],
    ) -> None:
        space = merging.space_of(self._search(student, task), declared, fixed)
        self.found.append(
            {
                "id": digest([identity(specification, self.defaults), space])[:16],
                "row": row.name,
                "student": student,
                "init": init,
                "task": task.name,
                "metric": specification["metric"],
                "refused": refused,
                "stages": stages,
                "specification": specification,
                "space": space,
                "after": after,
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


def _own(student: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[f"{student.name}.{name}"] for name in student.hyperparameters}


def _shape(source: Any) -> dict[str, Any]:
    """A model's configuration without what says only where and by whom it was written."""
    dropped = ("transformers_version", "_name_or_path", "architectures")
    return {name: value for name, value in source.configuration().items() if name not in dropped}
