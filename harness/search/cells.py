"""The cells of a study: what each trains or measures, what it waits for, and why some cannot exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import combine, pairing, registry
from harness.contracts import LayerMap, Row, Task, Want
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.evaluation import masked_words
from harness.files import digest
from harness.ledger import identity
from harness.search import settings as merging
from harness.search.choices import MULTI_TASK, PRETRAINED, Choice, Choices
from harness.search.contents import shape
from harness.search.jointly import Jointly
from harness.search.making import Making, own_name
from harness.search.request import Asked
from harness.training.code_versions import identified
from harness.training.settings import LABELS, PREDICTION
from harness.training.untuned import refusal as untuned_refusal

Specification = dict[str, Any]


class Cells:
    """Collects the cells of a plan.

    wants: the teacher signals asked for, by task. used: the overrides that reached a cell. sources: content -> the
    teacher and argument of a checkpoint that is fine-tuned as it is.
    """

    def __init__(
        self,
        asked: Asked,
        making: Making,
        tasks: Sequence[Task],
        checkpoints: Mapping[str, str],
        defaults: Mapping[str, Any],
    ):
        self.asked, self.making, self.checkpoints, self.defaults = asked, making, checkpoints, defaults
        self.tasks = {task.name: task for task in tasks}
        self.choices = Choices(asked)
        self.jointly = Jointly(asked, making, self.choices, self.tasks)
        self.found: list[dict[str, Any]] = []
        self.inits: list[str] = []
        self.wants: dict[str, Want] = {}
        self.used: set[str] = set()
        self.sources: dict[str, list[str]] = {}
        self._places: set[tuple[str, ...]] = set()

    def add(self, row: Row, task: Task) -> None:
        """Add the row's cells on a task: one for each student and initialisation that it leaves free."""
        procedure = row.procedure or self.asked.study.procedure
        if row.improves or (row.tasks and task.name not in row.tasks):
            return
        if self.asked.measured:
            for student in [None] if row.checkpoint else self.asked.students_of(row):
                self._measured(student, row, task, procedure)
        elif row.checkpoint:
            self._fine_tuned(row, task)
        elif row.teacher:
            self._teacher(row, task, procedure)
        else:
            for student in self.asked.students_of(row):
                for init in self.asked.inits_of(row):
                    self._student(student, init, row, task, procedure)

    def _student(self, student: Any, init: str, row: Row, task: Task, procedure: str) -> None:
        choice = self.choices.choose(row, student, init, None if procedure == MULTI_TASK else task, procedure)
        if (place := (student.name, choice.by_content, row.name, task.name)) in self._places:
            return  # two spellings of one initialisation
        self._places.add(place)
        if procedure == "general" and choice.kind == PRETRAINED:
            raise UserError(f"row {row.name} is distilled on the corpus itself, so it cannot start from {init}")
        if procedure == MULTI_TASK and choice.kind in (MULTI_TASK, PRETRAINED):
            raise UserError(f"row {row.name} is distilled on several tasks itself, so it cannot start from {init}")
        if not choice.refused:
            try:
                choice.describe(task)
            except UserError as error:  # settings that are sound each by itself, but not together
                choice.refused = str(error)
        self.inits += [choice.shown] if choice.shown not in self.inits else []
        if choice.refused:
            self._refused(choice, task, choice.refused)
        elif procedure == MULTI_TASK:
            self._joint(choice, task)
        elif procedure == "untuned":
            self._untuned(choice, task)
        else:
            self._trained(choice, task)

    # ------------------------------------------------------------ cells that train a student on a task

    def _trained(self, choice: Choice, task: Task) -> None:
        student, row, procedure = choice.student, choice.row, choice.procedure
        described, teacher = choice.describe(task), self.asked.info(task)
        layers: LayerMap = student.layer_map(choice.base, described, teacher)
        # In the procedure `general` the row's objective trains on the corpus, and the labels alone on the task.
        general = procedure == "general"
        objective = LABELS if general else combine.canonical(row.objective)
        terms = combine.parse(objective)
        refused = pairing.refusal(objective, "one_stage" if general else procedure, described, teacher, task)
        refused = refused or self._refused_analysis(task)
        on_corpus = combine.canonical(row.objective if general else self.asked.study.general)
        stages = [terms]
        if procedure == "two_stage" and combine.stage(terms) == "intermediate":
            stages.append(combine.parse(PREDICTION))
        elif procedure == "two_stage" and row.equal_epochs:
            choice.settings["epochs"] *= 2
        want = Want()
        for stage in stages:
            want |= combine.wants(stage, described, teacher, layers)[1]
        after: list[str] = []
        starts: list[str] = []
        by_content, distilled = choice.by_content, general or choice.init == PRETRAINED
        if distilled and not refused:
            run, refused = self._distilled(choice, on_corpus)
            by_content = f"{PRETRAINED}:{run}"
            after += [run] if run else []
        if choice.kind == MULTI_TASK and not refused:
            starts, refused = self._joint_starts(choice)
            by_content = f"{PRETRAINED}:{starts[0]}" if starts else by_content
            after += starts
        metric = self.asked.study.shown(task)[0]
        settings = self._of_task(choice, objective, on_corpus, distilled)
        alone = by_content.startswith(PRETRAINED) and not want.parts()  # the teacher is gone
        teachers = [] if alone else self._teachers_of(task, metric, choice.settings)
        self.used |= {"teacher.seeds"} if teachers else set()
        specification: Specification = {
            "kind": "student",
            "task": task.name,
            "data": self.asked.contents.data(task),
            "teacher": teachers[0] if teachers else self.making.who()[0],
            "student": student.name,
            "init": by_content,
            "objective": objective,
            "procedure": "one_stage" if general else procedure,
            "metric": metric,
            "settings": settings,
        }
        after += teachers
        after += self.making.augmented(choice.encoding(specification))
        specification |= {"analysis": self.asked.study.analysis} if self.asked.study.analysis else {}
        sizes = {"layers": described.layers, "width": described.width}
        self._add(choice, task, specification, after, refused, len(stages), layers, sizes, starts, teachers)
        if not refused:
            idle = {setting for stage in stages for setting in combine.idle(stage, task)}
            idle |= self._only_general(objective) - (_declared(on_corpus) if distilled else set())
            self._use(choice, task, idle)
            self.wants[task.name] = self.wants.get(task.name, Want()) | want

    def _distilled(self, choice: Choice, objective: str) -> tuple[str, str]:
        """(the run that distils the choice's student on the corpus, why there can be none)."""
        student, teacher = choice.student, self.asked.info(CORPUS)
        described = choice.describe(CORPUS)
        refused = pairing.refusal(objective, "general", described, teacher, CORPUS)
        elsewhere = choice.elsewhere("general.")
        settings = self.making.general_settings(elsewhere, idle=("transferred_layers", "stored_top_k"))
        if settings["text"] == "masked" and described.tokenizer != teacher.tokenizer:
            refused = refused or (
                f"masked text is that of the teacher's tokenizer, but {student.name} has a vocabulary of its own: "
                "general.text=sentences is read by each with its own"
            )
        elif settings["text"] == "sentences" and combine.masks(objective):
            refused = refused or f"{objective} predicts masked tokens, but general.text is sentences"
        if refused:
            return "", refused
        start = choice.by_content
        if choice.kind == PRETRAINED:  # what the distillation itself starts from
            begun = self.choices.before_distillation(choice)
            if begun.refused:
                return "", begun.refused
            start = begun.by_content
        names = {f"{student.name}.{n}" for n in set(student.hyperparameters) - student.head_settings}
        own = {name: choice.settings[name] for name in sorted(names | _declared(objective))}
        own |= self.making.general_own(student, elsewhere)
        return self.making.general(student, start, objective, own, elsewhere), ""

    def _teachers_of(self, task: Task, metric: str, settings: Mapping[str, Any]) -> list[str]:
        """The teachers' runs, by seed, that a cell with these settings imitates, with the same share of the data."""
        return self.making.of_task(task, metric, {"train_fraction": settings["train_fraction"]})

    def _of_task(self, choice: Choice, objective: str, on_corpus: str, distilled: bool) -> dict[str, Any]:
        """The settings that act on the task: those of an objective on the corpus do not."""
        only = self._only_general(objective) | ((_declared(on_corpus) - _declared(objective)) if distilled else set())
        return {name: value for name, value in choice.settings.items() if name not in only}

    def _only_general(self, objective: str) -> set[str]:
        """The settings of the usual general distillation that the task's own objective has not."""
        return _declared(self.asked.study.general) - _declared(objective)

    # ------------------------------------------------------------ cells of a student distilled on several tasks

    def _joint(self, choice: Choice, task: Task) -> None:
        """A cell of a joint run, which the cells of all its tasks share."""
        without = self._only_general(choice.row.objective)
        settings = {name: value for name, value in choice.settings.items() if name not in without}
        specification, refused = self.jointly.specification(choice, choice.row.objective, settings)
        if not refused and task.name not in specification["tasks"]:
            only = ", ".join(specification["tasks"])
            refused = f"row {choice.row.name} trains on {only} alone, and is not fine-tuned"
        if refused:
            self._refused(choice, task, refused)
            return
        after = [specification["teacher"], *self.making.augmented(specification)]
        described = choice.describe(task)
        self._add(choice, task, specification, after, size={"layers": described.layers, "width": described.width})
        self._use(choice, None, without)

    def _joint_starts(self, choice: Choice) -> tuple[list[str], str]:
        """(the joint runs, by seed, that the choice's student starts from, why there can be none)."""
        specification, refused = self.jointly.specification(
            choice, self.asked.study.general, self.jointly.settings(choice)
        )
        if refused:
            return [], refused
        after = [specification["teacher"], *self.making.augmented(specification)]
        return self.making.joint(specification, after, self._seeds()), ""

    # ------------------------------------------------------------ cells without a student of ours

    def _untuned(self, choice: Choice, task: Task) -> None:
        """A cell that compares the sentence vectors of a student which no label of the task has tuned."""
        after, start = [], choice.by_content
        objective = combine.canonical(choice.row.objective) if choice.row.objective else ""
        described = choice.describe(task)
        refused = untuned_refusal(objective, described, self.asked.info(task), task)
        if choice.init == PRETRAINED and not refused:
            run, refused = self._distilled(choice, self.asked.study.general)
            start, after = f"{PRETRAINED}:{run}", [run] if run else []
        who, before = self.making.who()
        specification = choice.encoding(
            {
                "kind": "untuned",
                "task": task.name,
                "data": self.asked.contents.data(task),
                "teacher": who,
                "student": choice.student.name,
                "init": start,
                "objective": objective,
                "metric": self.asked.study.shown(task)[0],
                "settings": self._of_task(choice, objective, self.asked.study.general, True),
            }
        )
        self._add(choice, task, specification, [*after, *before], refused)
        if not refused:
            self._use(choice, task, set())

    def _teacher(self, row: Row, task: Task, procedure: str) -> None:
        """A cell of the teacher itself, fine-tuned on the task or, in the procedure `untuned`, as it is."""
        choice = self.choices.choose(row, None, "", task, procedure)
        metric, refused = self.asked.study.shown(task)[0], choice.refused or self._refused_analysis(task)
        info = self.asked.info(task)
        own = {name: choice.settings[name] for name in row.settings if name in choice.settings}
        if procedure == "untuned":
            refused = refused or untuned_refusal("", None, info, task, choice.settings["untuned.pooling"])
            who, after = self.making.who()
            specification: Specification = {
                "kind": "untuned",
                "task": task.name,
                "data": self.asked.contents.data(task),
                "teacher": who,
                "student": "",
                "init": "",
                "objective": "",
                "metric": metric,
                "settings": choice.settings,
            }
        elif procedure == MULTI_TASK:
            specification, after, refused = self.jointly.teacher(row, own)
            if refused:
                self._refused(choice, task, refused)
                return
        else:
            specification, after = self.making.teacher_specification(task, metric, own)
            specification |= {"analysis": self.asked.study.analysis} if self.asked.study.analysis else {}
        self._add(choice, task, specification, after, refused, size={"layers": info.layers, "width": info.width})
        self._use(choice, task, set())

    def _fine_tuned(self, row: Row, task: Task) -> None:
        """A cell of a checkpoint that is fine-tuned as it is."""
        source = registry.TEACHERS.get(registry.HUB)(self.checkpoints[row.name])
        who = {"name": source.name, "content": self.asked.contents.teacher(source)}
        self.sources[who["content"]] = [source.name, source.argument]
        choice = self.choices.choose(row, None, "", task, "one_stage")
        specification = {
            "kind": "checkpoint",
            "task": task.name,
            "data": self.asked.contents.data(task),
            "teacher": who,
            "metric": self.asked.study.shown(task)[0],
            "settings": choice.settings,
        }
        info = self.asked.examined(source, task)
        self._add(choice, task, specification, size={"layers": info.layers, "width": info.width})
        self.used |= set(choice.fixed) - merging.idle(choice.settings)

    def _measured(self, student: Any, row: Row, task: Task, procedure: str) -> None:
        """A cell that builds a model of random weights, a student or (None) a checkpoint: it reads configurations."""
        choice = self.choices.choose(row, student, "", task, procedure)
        source = self.asked.teacher if student else registry.TEACHERS.get(registry.HUB)(row.checkpoint)
        specification: Specification = {
            "kind": procedure,
            "task": task.name,
            "student": choice.name,
            "configuration": shape(source),
            "metric": self.asked.study.shown(task)[0],
            "settings": choice.settings,
        }
        if procedure == "speed":
            reference = next(r.checkpoint for r in self.asked.study.rows if r.checkpoint)
            specification["reference"] = shape(registry.TEACHERS.get(registry.HUB)(reference))
        self._add(choice, task, specification, refused=choice.refused)
        self._use(choice, task, set())

    # ------------------------------------------------------------ shared

    def _refused(self, choice: Choice, task: Task, reason: str) -> None:
        nothing = {"metric": self.asked.study.shown(task)[0], "settings": choice.settings}
        self._add(choice, task, nothing, refused=reason)

    def _refused_analysis(self, task: Task) -> str:
        return masked_words.refusal(task) if self.asked.study.analysis else ""

    def _seeds(self) -> int:
        return self.asked.request.seeds or self.asked.profile.seeds

    def _add(
        self,
        choice: Choice,
        task: Task,
        specification: Specification,
        after: Sequence[str] = (),
        refused: str = "",
        stages: int = 1,
        layers: LayerMap | None = None,
        size: Mapping[str, int] | None = None,
        starts: Sequence[str] = (),
        teachers: Sequence[str] = (),
    ) -> None:
        """starts, teachers: by seed, the joint runs that the cell's runs start from, and those they learn from."""
        specification = identified(specification)
        searched = {} if specification.get("kind") in ("count", "speed") else choice.declared
        own = {own_name(choice.student, key) for key in choice.row.settings}
        space = merging.space_of(self._search(choice.name, task), searched, own | set(choice.fixed))
        search = digest([identity(specification, self.defaults), space, *([choice.row.name] if refused else [])])[:16]
        # Nothing is drawn where the vectors of given weights are compared.
        certain = specification.get("kind") == "untuned" and not specification["objective"] and choice.init != "random"
        apart = [task.name] if "tasks" in specification else []  # cells of one joint run propose the same settings
        self.found.append(
            {
                "id": digest([search, *apart])[:16] if apart else search,
                "search": search,
                "row": choice.row.name,
                "student": choice.name,
                "init": choice.shown,
                "task": task.name,
                "metric": self.asked.study.shown(task)[0],
                "refused": refused,
                "stages": stages,
                "specification": specification,
                "space": space,
                "after": list(dict.fromkeys(after)),
                "starts": list(starts),
                **({"teachers": list(teachers)} if len(teachers) > 1 else {}),
                "layers": [list(pair) for pair in layers.pairs] if layers else [],
                "size": size or {"layers": 0, "width": 0},
                "trials": self.asked.request.trials or self.asked.profile.trials,
                "seeds": 1 if certain else self._seeds(),
            }
        )

    def _search(self, student: str, task: Task) -> dict[str, Any]:
        """The profile's search space, "student.NAME" being the student's own, without what does nothing on the task."""
        space = {
            f"{student}.{key.removeprefix('student.')}" if key.startswith("student.") else key: values
            for key, values in self.asked.profile.search.items()
        }
        return {key: v for key, v in space.items() if task.pair or not key.endswith(".pair_encoding")}

    def _use(self, choice: Choice, task: Task | None, idle: set[str]) -> None:
        """Note which overrides had an effect; those of `idle` had none."""
        idle = idle | merging.idle(choice.settings)
        if choice.student:
            idle |= {f"{choice.name}.{name}" for name in choice.student.idle(choice.own)}
        if task and not task.pair:
            idle.add(own_name(choice.student, "student.pair_encoding"))
        space = merging.space_of(self._search(choice.name, task), choice.declared, choice.fixed) if task else {}
        idle |= merging.idle_pruner(choice.settings, space, self.asked.request.trials or self.asked.profile.trials)
        effective = set(choice.fixed) - idle
        self.used |= {key for key in self.asked.overrides if own_name(choice.student, key) in effective}


def _declared(objective: str) -> set[str]:
    return set(combine.declared(combine.parse(objective))) if objective else set()
