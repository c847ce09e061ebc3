"""Finds plugins by name: in the project's folders, in installed distributions, and in files given by --plugin."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from harness import declaring, plugin_code
from harness.contracts import Hyperparameter, Signal, Study
from harness.errors import UserError, alike, check_known
from harness.files import digest
from harness.importing import importing

if TYPE_CHECKING:
    from torch import Tensor

    from harness.modeling.bases import Objective, Student, Teacher

T = TypeVar("T")
MAIN = "__main__"  # where what a notebook's cells and a script define is from
WRITTEN = {MAIN}  # and the files that it was written to: a name that one of these has may be defined again
HUB = "huggingface"  # the teacher that any name on the hub and any folder is for, and that loads checkpoints
ENSEMBLE = "ensemble"  # the teacher of several names joined by +


class Registry(Generic[T]):
    """Plugins of one kind by name. `folder` is the package whose modules register themselves on import."""

    def __init__(self, kind: str, folder: str):
        self.kind = kind
        self.folder = folder
        self._found: dict[str, tuple[T, str]] = {}
        self._searched = False

    def add(self, name: str, plugin: T, origin: str) -> None:
        """Register `plugin`. Raises UserError, naming both files, if another file has taken the name."""
        taken = self._found.get(name)
        if taken and taken[0] is plugin:  # a task that several sources have
            return
        if origin == MAIN:
            _loaded.difference_update(WRITTEN)  # what is written of it again takes its place again
        if taken and {taken[1], origin} <= WRITTEN:
            _loaded.discard(taken[1])
            taken = None
        if taken and taken[1] != origin:
            raise UserError(f"{self.kind} {name!r} is defined twice: in {taken[1]} and in {origin}; rename one")
        if taken:
            raise UserError(f"{self.kind} {name!r} is defined twice in {origin}; rename one, or start Python anew")
        self._found[name] = (plugin, origin)
        plugin_code.note(origin)

    def get(self, name: str) -> T:
        """The plugin called `name`. Raises UserError with near names."""
        self._search_folder()
        if name not in self._found:
            load_installed()
        check_known(self.kind, name, self._found)
        return self._found[name][0]

    def origin(self, name: str) -> str:
        """The file that defines `name`."""
        self.get(name)
        return self._found[name][1]

    def called(self, name: str) -> str:
        """The plugin as sentences name it: yours with its file."""
        if name not in self._found or self.ships(name):
            return f"{self.kind} {name}"
        return f"{self.kind} {name!r} in {self.origin(name)}"

    def ships(self, name: str) -> bool:
        """True if `name` is part of this distribution: its file lies in the project's folder."""
        return _lies_in(self.origin(name), self.folder)

    def names(self) -> list[str]:
        """Every name of this kind, sorted; installed distributions included."""
        self._search_folder()
        load_installed()
        return sorted(self._found)

    def known(self) -> Mapping[str, tuple[T, str]]:
        """(plugin, its file) by name, of all that were registered so far; nothing is searched for."""
        return self._found

    def _search_folder(self) -> None:
        if self._searched:
            return
        self._searched = True
        package = importlib.import_module(self.folder)
        for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
            with importing(f"plugin file {package.__path__[0]}/{module}.py"):
                importlib.import_module(f"{self.folder}.{module}")


@functools.cache  # a plan asks it of the same few files for every cell
def _lies_in(origin: str, package: str) -> bool:
    return any(Path(origin).is_relative_to(folder) for folder in importlib.import_module(package).__path__)


OBJECTIVES: Registry[type[Objective]] = Registry("objective", "harness.objectives")
STUDENTS: Registry[type[Student]] = Registry("student", "harness.students")
TEACHERS: Registry[type[Teacher]] = Registry("teacher", "harness.teachers")
STUDIES: Registry[Study] = Registry("study", "harness.studies")
PROCEDURES: Registry[Any] = Registry("procedure", "harness.procedures")
TASKS: Registry[Any] = Registry("task", "harness.data.task_sources")
SOURCES: Registry[Any] = Registry("task source", "harness.data.task_sources")
_EVERY = (OBJECTIVES, STUDENTS, TEACHERS, STUDIES, PROCEDURES)
ALL: dict[str, Registry[Any]] = {r.folder.rpartition(".")[2]: r for r in _EVERY} | {"tasks": TASKS, "sources": SOURCES}


def teacher_named(text: str) -> Teacher:
    """The teacher that `--teacher` means: a plugin's name with its argument, several joined by +, a hub name or folder.

    Raises UserError for what is none.
    """
    name, _, argument = text.partition(":")
    if "+" in text and name != ENSEMBLE and not Path(argument or text).expanduser().exists():
        name, argument = ENSEMBLE, text
    elif name not in TEACHERS.names():
        name, argument = HUB, text
    made = TEACHERS.get(name)(argument)
    vars(made).setdefault("argument", argument)  # one of yours may have forgotten its super().__init__
    return made


def arguments_of(name: str, argument: str) -> list[tuple[str, str]]:
    """(what stands before it, the argument) of a teacher, or of each member of an ensemble."""
    if name != ENSEMBLE:
        return [("", argument)]
    found = []
    for word in map(str.strip, argument.split("+")):
        plugin, colon, own = word.partition(":")
        found.append((plugin + colon, own) if plugin in TEACHERS.names() else ("", word))
    return found


def argument_with(name: str, argument: str, change: Callable[[str], str]) -> str:
    """A teacher's argument with each place in it changed, but to none with the + that parts an ensemble's members."""
    changed = [(before, own, change(own)) for before, own in arguments_of(name, argument)]
    return "+".join(before + (own if name == ENSEMBLE and "+" in other else other) for before, own, other in changed)


_loaded: set[str] = set()


@functools.cache
def _installed(path: tuple[str, ...]) -> list[EntryPoint]:
    """The entry points of the distributions on sys.path: to look for them takes 5 ms."""
    return sorted(entry_points(group="harness.plugins"), key=lambda point: (point.name, point.value))


def installed() -> list[EntryPoint]:
    """The modules that installed distributions name in the entry-point group "harness.plugins"."""
    return _installed(tuple(dict.fromkeys(sys.path)))  # runs have the folder of `python -m` twice


def load_installed() -> None:
    """Import every module that an installed distribution names in the entry-point group "harness.plugins"."""
    for point in installed():
        if point.value not in _loaded:
            with importing(f"installed plugin {point.name!r} ({point.value})"):
                point.load()
            _loaded.add(point.value)


def load_file(path: str | Path) -> None:
    """Import the plugin file given by --plugin; a second call with the same file does nothing.

    It may import what lies beside it, where that hides nothing that is installed.
    Raises UserError if the file is missing, does not parse, fails on import, declares a plugin wrongly or has none.
    """
    path = Path(path).resolve()
    if str(path) in _loaded:
        return
    if path.is_dir():
        raise UserError(f"plugin file {path} is a folder: give the file in it that registers the plugin")
    if not path.is_file():
        raise UserError(f"plugin file {path} does not exist{alike(path, ending='.py')}")
    name = f"harness_plugin_{path.stem}_{digest(str(path))[:8]}"  # files of one name lie in several folders
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"plugin file {path} is not a Python file (its name must end in .py)")
    for registry in ALL.values():  # the project's own names first, so that a taken name is found out
        registry._search_folder()
    load_installed()
    if any(path == Path(origin).resolve() for each in ALL.values() for _, origin in each.known().values()):
        return  # of an installed distribution
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    before = _registered()
    with importing(f"plugin file {path}"):
        spec.loader.exec_module(module)
    if _registered() == before and not _brings(module):
        raise UserError(
            f"plugin file {path} registers nothing: write a decorator such as @objective above what it defines"
        )
    _loaded.add(str(path))


def _registered() -> set[tuple[str, str, str]]:
    """(kind, name, file) of all there is: a file of a notebook's cells takes the place of what they registered.

    So too what transformers was told of: a file may do that alone, for `--teacher FOLDER`.
    """
    ours = {(each.kind, name, origin) for each in ALL.values() for name, (_, origin) in each.known().items()}
    return ours | {("model", each.__module__, each.__qualname__) for each in told_to_transformers()}


def told_to_transformers() -> set[type]:
    """The classes of models and of their configurations that have been registered with it, besides its own."""
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

    kinds: list[Any] = [AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification]
    known = (CONFIG_MAPPING, *(kind._model_mapping for kind in kinds))
    return {each for mapping in known for each in mapping._extra_content.values()}


def _brings(module: Any) -> bool:
    """Whether a module names what another file registered before, that is none of ours."""
    named = {getattr(each, "__module__", getattr(each, "__name__", "")) for each in list(vars(module).values())}
    files = {getattr(sys.modules.get(str(name)), "__file__", None) for name in named}
    return any(origin in files and not _lies_in(origin, each.folder)
               for each in ALL.values() for _, origin in each.known().values())  # fmt: skip


def own_file(known: Registry[Any], name: str) -> Path | None:
    """The user's own file that a plugin is from, which other processes have to be told of; None where they know it."""
    path = Path(known.known()[name][1])
    if known.ships(name) or not path.is_file():
        return None
    modules = {each.__name__.partition(".")[0] for each in list(sys.modules.values())
               if getattr(each, "__file__", None) == str(path)}  # fmt: skip
    if modules & {point.module.partition(".")[0] for point in installed()}:
        return None
    _loaded.add(str(path))  # here it is, whether by --plugin or by an import
    return path


def study(declared: Study) -> Study:
    """Register a study. Called once at the end of its file."""
    file = _file(sys._getframe(1).f_globals)
    declaring.study(declared, file)
    STUDIES.add(declared.name, declared, file)
    return declared


def objective(
    name: str,
    *,
    needs: set[Signal],
    stage: str = "intermediate",
    token_level: bool = False,
    ranks: bool = False,
    labels: bool | Mapping[str, object] = False,
    hyperparameters: Mapping[str, Hyperparameter] | None = None,
) -> Callable[[Any], Any]:
    """Register an objective: a function of (student, teacher, batch) or a subclass of Objective.

    A function may also take `layers` (the LayerMap) and must take each declared hyperparameter, all keyword-only:
    `def att_mse(student, teacher, batch, *, layers)`. A class takes (student, teacher, layers) in `__init__`, then
    the hyperparameters. stage is "intermediate" or "prediction". One that needs logits says with `ranks` that it also
    trains the scores of candidates (`Batch.groups`). One that reads the labels says so with `labels`: True, and it is
    refused where there are none, or the hyperparameters with which it loses the term that does. Returns what it
    decorates. Raises UserError for a wrong signature, an unknown stage or a taken name.
    """

    def register(plugin: Any) -> Any:
        from harness.modeling.bases import Objective

        who = declaring.name("objective", name, file := file_of(plugin))
        if not name.isidentifier():  # sums and settings are written with it: "0.5*att_kl+hid_seq", "vanilla_kd.alpha"
            raise UserError(f"objective name {name!r} must be letters, digits and underscores, with no digit first")
        if stage not in ("intermediate", "prediction"):
            raise UserError(f"{who}: stage is intermediate or prediction, not {stage!r}")
        asked, declared = declaring.signals(who, "needs", needs), declaring.hyperparameters(who, hyperparameters)
        without = declaring.without_labels(who, labels, declared)
        if inspect.isclass(plugin) and issubclass(plugin, Objective):
            declaring.signature(who, plugin.__init__, ["self", "student", "teacher", "layers"], declared)
            declaring.signature(who, plugin.forward, ["self", "student", "teacher", "batch"], {})
            declaring.methods(who, plugin, Objective, needed=("forward",), apart=("__init__", "forward"))
            made = plugin
        elif inspect.isfunction(plugin):
            declaring.signature(who, plugin, ["student", "teacher", "batch"], declared, ("layers",))
            made = _objective_of(plugin, declared)
        else:
            raise UserError(f"objective {name!r} must be a function or a subclass of Objective, not {plugin!r}")
        made.name, made.needs, made.stage, made.token_level = name, asked, stage, token_level
        made.ranks, made.hyperparameters, made.defined_by = ranks, declared, plugin
        made.needs_labels, made.without_labels = labels is True, without
        plugin.name = name
        OBJECTIVES.add(name, made, file)
        return plugin

    return register


def student(
    name: str,
    *,
    emits: set[Signal],
    pair_encodings: tuple[str, ...] = ("joint",),
    hyperparameters: Mapping[str, Hyperparameter] | None = None,
    head_settings: tuple[str, ...] = (),
    file_inits: tuple[str, ...] = (),
) -> Callable[[type[Student]], type[Student]]:
    """Register a subclass of Student. Raises UserError for anything else or a taken name.

    head_settings are the hyperparameters that only shape how a task is answered; file_inits the kinds of initialisation
    that name a file, as in "vectors:FILE". A student with several pair
    encodings gets the hyperparameter `pair_encoding`, the first being its default.
    """

    def register(plugin: type[Student]) -> type[Student]:
        from harness.modeling.bases import Student

        who = declaring.name("student", name, file := file_of(plugin))
        if not (inspect.isclass(plugin) and issubclass(plugin, Student)):
            raise UserError(f"student {name!r} must be a subclass of Student, not {plugin!r}")
        declaring.takes(who, "__init__", plugin.__init__, ["self", "config"])
        needed = ("describe", "layer_map", "initialise", "forward")
        declaring.methods(who, plugin, Student, needed, apart=("from_pretrained", "save_pretrained"))
        encodings = declaring.words(who, "pair_encodings", pair_encodings)
        if not encodings:
            raise UserError(f"{who}: pair_encodings is empty, but it must read a pair somehow, as in ('joint',)")
        own = declaring.hyperparameters(who, hyperparameters)
        plugin.name, plugin.emits = name, declaring.signals(who, "emits", emits)
        plugin.pair_encodings, plugin.hyperparameters = encodings, own
        plugin.file_inits = frozenset(declaring.words(who, "file_inits", file_inits))
        plugin.head_settings = frozenset(declaring.words(who, "head_settings", head_settings, among=own))
        if len(encodings) > 1:
            says = "how the two texts of a pair are read"
            plugin.hyperparameters["pair_encoding"] = Hyperparameter(encodings[0], choices=encodings, says=says)
            plugin.head_settings |= {"pair_encoding"}
        STUDENTS.add(name, plugin, file)
        return plugin

    return register


def teacher(name: str) -> Callable[[type[Teacher]], type[Teacher]]:
    """Register a subclass of Teacher. Raises UserError for anything else or a taken name."""

    def register(plugin: type[Teacher]) -> type[Teacher]:
        from harness.modeling.bases import Teacher

        who = declaring.name("teacher", name, file := file_of(plugin))
        if not (inspect.isclass(plugin) and issubclass(plugin, Teacher)):
            raise UserError(f"teacher {name!r} must be a subclass of Teacher, not {plugin!r}")
        declaring.methods(who, plugin, Teacher)
        plugin.name = name
        TEACHERS.add(name, plugin, file)
        return plugin

    return register


def file_of(plugin: object) -> str:
    """The file that a function or a class is defined in, or MAIN."""
    return _file(vars(sys.modules[getattr(plugin, "__module__", __name__)]))


def _file(namespace: Mapping[str, object]) -> str:
    """The file that a module's namespace is of, or MAIN."""
    if namespace.get("__name__") == MAIN:
        return MAIN
    return str(namespace.get("__file__", namespace.get("__name__", "?")))


def _objective_of(function: Callable[..., Tensor], declared: Mapping[str, Hyperparameter]) -> type[Objective]:
    """The Objective class that calls `function`."""
    from harness.modeling.bases import Objective

    takes_layers = "layers" in inspect.signature(function).parameters

    def __init__(self: Any, student: Any, teacher: Any, layers: Any, **hyperparameters: Any) -> None:
        Objective.__init__(self, student, teacher, layers)
        self.keywords = hyperparameters | ({"layers": layers} if takes_layers else {})

    def forward(self: Any, student: Any, teacher: Any, batch: Any) -> Any:
        return function(student, teacher, batch, **self.keywords)

    return type(
        function.__name__,
        (Objective,),
        {"__init__": __init__, "forward": forward, "__doc__": function.__doc__, "__module__": function.__module__},
    )
