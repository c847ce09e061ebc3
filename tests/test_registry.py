import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from harness import registry
from harness.code_versions import outside
from harness.errors import UserError
from harness.registry import ALL, OBJECTIVES, STUDIES, load_file
from tests.conftest import Harness
from tests.results import refused
from tests.search.builders import student_run

GOOD = """
from harness.contracts import Hyperparameter, Signal
from harness.registry import objective

@objective("NAME", needs={Signal.LOGITS}, hyperparameters={"power": Hyperparameter(2.0, low=1.0, high=4.0)})
def outside(student, teacher, batch, *, power):
    return (student.logits - teacher.logits.detach()).abs().pow(power).mean()
"""

HEADER = """
from harness.contracts import Hyperparameter, Signal
from harness.modeling.bases import Objective, Student, Teacher
from harness.registry import objective, student, teacher

POWER = {"power": Hyperparameter(2.0)}
"""
LOSS = "def f(student, teacher, batch): ...\n"
ASKS, EMITS = ("@objective('o', needs={Signal.LOGITS}, ", "@student('s', emits={Signal.LOGITS}, ")
BARE = "@objective('o', needs={Signal.LOGITS})\n"
C, FORWARD = f"{BARE}class C(Objective):\n", "    def forward(self, student, teacher, batch): ...\n"
STUDENT = """class S(Student):
    @classmethod
    def describe(cls, settings, teacher, task): ...
    @classmethod
    def layer_map(cls, init, student, teacher): ...
    def initialise(self, init, teacher, tokenizer): ...
    def forward(self, batch, want): ...
"""


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what a test registered."""
    for found in ALL.values():
        found.names()
        monkeypatch.setattr(found, "_found", dict(found._found))
    monkeypatch.setattr(registry, "_loaded", set(registry._loaded))
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("harness_plugin_") or name.startswith("outside_"):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(source: str, name: str = "plugin.py") -> Path:
        path = tmp_path / name
        path.write_text(source)
        return path

    return written


def test_the_projects_objectives_are_found_in_their_folder() -> None:
    of_layers = {"hid_cls", "hid_seq", "hid_cls_contrast", "att_mse", "att_kl", "val_kl"}
    assert {"labels_only", "vanilla_kd", "logit_mse", "cosine", *of_layers} <= set(OBJECTIVES.names())
    assert Path(OBJECTIVES.origin("att_kl")).parent.name == "objectives"


@pytest.mark.parametrize(
    ("name", "said"),
    [("atkl", "did you mean att_kl"), ("kd", "did you mean mlm_kd or vanilla_kd or"),
     ("cosine_similarity", r"did you mean cosine\?"), ("zzzzz", "valid names: att_kl, att_mse")],
)  # fmt: skip
def test_an_unknown_name_suggests_near_ones(name: str, said: str) -> None:
    with pytest.raises(UserError, match=f"unknown objective '{name}': {said}"):
        OBJECTIVES.get(name)


def test_a_plugin_file_adds_its_objective(write: Callable[..., Path]) -> None:
    path = write(GOOD.replace("NAME", "outside"))
    load_file(path)
    load_file(path)  # a second time changes nothing
    assert "outside" in OBJECTIVES.names()
    assert OBJECTIVES.origin("outside") == str(path)
    made = OBJECTIVES.get("outside")
    assert made.hyperparameters["power"].default == 2.0 and made.stage == "intermediate" and not made.token_level


def test_a_taken_name_names_both_files(write: Callable[..., Path]) -> None:
    path = write(GOOD.replace("NAME", "att_kl"))
    with pytest.raises(UserError, match="objective 'att_kl' is defined twice") as caught:
        load_file(path)
    assert str(path) in str(caught.value) and OBJECTIVES.origin("att_kl") in str(caught.value)


def test_two_plugins_never_share_a_file_that_lies_beside_one_of_them(tmp_path: Path) -> None:
    """Both import `factor_of`: the second would get the first's, and be recorded with its own."""
    for name, factor in (("one", 1), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "factor_of.py").write_text(f"FACTOR = {factor}\n")
        (folder / "plugin.py").write_text(f"import factor_of\n{GOOD.replace('NAME', name)}")
        load_file(folder / "plugin.py")
    assert outside(student_run(objective="one")).keys() == {"objective one"}
    with pytest.raises(
        UserError, match=r"two/plugin\.py imports .*two/factor_of\.py, but .*one/factor_of\.py, of the same"
    ):
        outside(student_run(objective="two"))


@pytest.mark.parametrize("package", [True, False])
def test_nor_where_it_is_imported_as_it_is_called(
    tmp_path: Path, package: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the plugin that was loaded first is the first to be searched."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "power_of.py").write_text(f"POWER = {len(name)}\n")
        (folder / "plugin.py").write_text(f"def power():\n    import power_of\n{GOOD.replace('NAME', name)}")
        if package:
            (folder / "__init__.py").write_text("")
        load_file(folder / "plugin.py")
    assert outside(student_run(objective="first")).keys() == {"objective first"}
    with pytest.raises(UserError, match=r"second/power_of\.py, but .*first/power_of\.py, of the same name, is found"):
        outside(student_run(objective="second"))


def test_a_copy_of_a_package_never_gets_a_module_of_the_one_that_is_worked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, factor in (("worked", 1), ("copied", 2)):
        package = tmp_path / name / "package_of_losses"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "factors.py").write_text(f"FACTOR = {factor}\n")
        lines = "from package_of_losses.factors import FACTOR\nimport types\n"  # Python's, which is not beside it
        (package / "plugin.py").write_text(lines + GOOD.replace("NAME", name))
        (package / "types.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "worked"))
    for name in ("worked", "copied"):
        load_file(tmp_path / name / "package_of_losses" / "plugin.py")
    assert outside(student_run(objective="worked")).keys() == {"objective worked"}
    with pytest.raises(UserError, match=r"imports .*copied/.*, but .*worked/package_of_losses/.*, of the same name"):
        outside(student_run(objective="copied"))


def test_a_name_used_twice_in_one_file_names_it_once(write: Callable[..., Path]) -> None:
    path = write(GOOD.replace("NAME", "outside") * 2)
    with pytest.raises(UserError, match="defined twice in") as caught:
        load_file(path)
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def broken(:\n", "syntax error on line 1"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("from .beside import loss\n", "it is of no package, and imports what lies beside it by its name alone"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import sys\nsys.exit(0)\n", r"calls sys\.exit\(0\) as it is imported"),
        ("raise GeneratorExit\n", "GeneratorExit"),
        ("import torch\ntorch.set_default_dtype(torch.float64)\n", "default dtype to torch.float64 as it is imported"),
        ("import torch\ntorch.set_grad_enabled(False)\n", "sets torch's gradients to False as it is imported"),
        ("TWO = 2\n", "registers nothing: write a decorator such as @objective"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(write: Callable[..., Path], source: str, message: str) -> None:
    path, dtype = write(source), torch.get_default_dtype()
    try:
        with pytest.raises(UserError, match=message) as caught:
            load_file(path)
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(True)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_file_prints_is_on_standard_error(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output may be a table: harness report --format csv > FILE."""
    load_file(write('print("imported")\n' + GOOD.replace("NAME", "printing")))
    assert capsys.readouterr() == ("", "imported\n")


def test_a_missing_file_and_one_that_is_not_python_are_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.py does not exist"):
        load_file(tmp_path / "absent.py")
    (tmp_path / "here.py").write_text("")
    (tmp_path / "here.csv").write_text("")  # which is no plugin
    with pytest.raises(UserError, match=r"here does not exist: did you mean here\.py\?"):
        load_file(tmp_path / "here")
    with pytest.raises(UserError, match="is a folder: give the file in it"):
        load_file(tmp_path)
    with pytest.raises(UserError, match=r"must end in \.py"):
        load_file(write("", "plugin.txt"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"{BARE}def f(student, batch): ...\n", r"f takes \(student, batch\) but must take \(student, teacher,"),
        (f"{BARE}def f(teacher, student, batch): ...\n", "must take .student, teacher"),
        (
            f"{BARE}def f(student, teacher, batch, power): ...\n",
            r"but must take \(student, teacher, batch\), or declare hyperparameters=\{'power': Hyperparameter",
        ),
        (f"{BARE}def f(student, teacher, batch, **rest): ...\n", "but must take"),
        (f"{ASKS}hyperparameters=POWER)\n{LOSS}", r"but must take \(student, teacher, batch, \*, power\)"),
        (
            f"{C}    def forward(self, student, batch): ...\n",
            r"forward takes \(self, student, batch\) but must take \(self, student, teacher, batch\)",
        ),
        (f"{C.replace('})', '}, hyperparameters=POWER)')}{FORWARD}", "__init__ takes"),
        (f"{BARE}class C:\n    pass\n", "must be a function or a subclass of Objective"),
        (f"{ASKS}stage='final')\n{LOSS}", "stage is intermediate or prediction, not 'final'"),
        (f"@objective('o', needs='logits')\n{LOSS}", "needs is a set of signals, as in {Signal.LOGITS}, not 'logits'"),
        (f"@objective('o', needs={{'logitz'}})\n{LOSS}", "names 'logitz', which is not a signal: did you mean logits"),
        (f"@objective(3, needs={{Signal.LOGITS}})\n{LOSS}", "objective 3 in .*: its name must be a word"),
        (f"{ASKS}labels={{'power': 1}})\n{LOSS}", "labels names 'power', which it does not have: there are none"),
        (f"{ASKS}labels='yes')\n{LOSS}", "labels is True, False or the hyperparameters with which it reads none"),
        (f"{ASKS}hyperparameters={{'power': 2.0}})\n{LOSS}", r"hyperparameter power must be a Hyperparameter\(DEFAULT"),
        (f"{ASKS}hyperparameters=[2])\n{LOSS}", r"maps names to Hyperparameter\(DEFAULT\), but is \[2\]"),
        (f"{C}    def refuse(self, student): ...\n{FORWARD}", "refuse must be a class method: write @classmethod"),
        (
            f"{C}    prepare = property(lambda self: None)\n{FORWARD}",
            r"prepare is not a method, but must take \(self, labels, size\)",
        ),
        (f"{C}    pass\n", "has no forward, which every Obj"),
        ("@student('s', emits={Signal.LOGITS})\nclass S:\n    pass\n", "student 's' must be a subclass of Student"),
        (f"@student('s', emits='logits')\n{STUDENT}", "emits is a set of signals"),
        (f"{EMITS}pair_encodings=())\n{STUDENT}", "pair_encodings is empty, but it must read a pair somehow"),
        (f"{EMITS}pair_encodings='joint')\n{STUDENT}", "pair_encodings is a tuple of words, as in .* not 'joint'"),
        (f"{EMITS}file_inits='vectors')\n{STUDENT}", "file_inits is a tuple of words"),
        (f"{EMITS}head_settings=('powr',), hyperparameters=POWER)\n{STUDENT}", "names 'powr', .* did you mean power"),
        (f"{EMITS})\n{STUDENT.replace('layer_map', 'layer_maps')}", "has no layer_map, which every Student must have"),
        (f"{EMITS})\n{STUDENT.replace('batch, want', 'inputs')}", r"forward takes \(self, inputs\) but must take"),
        (f"{EMITS})\n{STUDENT.replace('    @classmethod', '')}", "describe must be a class method"),
        ("@teacher('t')\nclass T(Teacher):\n    pass\n", "teacher 't' in .* has no answers and no configuration"),
        ("@teacher('t')\ndef t(): ...\n", "teacher 't' must be a subclass of Teacher"),
    ],
)
def test_a_plugin_declared_wrongly_says_what_is_wrong(write: Callable[..., Path], source: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_file(write(HEADER + source))
    assert "\n" not in str(caught.value)
    assert "o" not in OBJECTIVES.names()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("Hyperparameter(2.0, low=4.0, high=1.0)", r"low 4\.0 is above high 1\.0"),
        ("Hyperparameter(9.0, low=1.0, high=4.0)", r"default 9\.0 is not between low 1\.0 and high 4\.0"),
        ("Hyperparameter('c', choices=('a', 'b'))", r"default 'c' is not one of its choices \('a', 'b'\)"),
        ("Hyperparameter((1, 2), choices=((1, 2), (3, 4)))", r"choices must be numbers, words, .* not \(1, 2\)"),
        ("Hyperparameter(1, choices=(1, True))", "choices have True twice, which could not be told apart"),
        ("Hyperparameter(1, choices=(1, '1'))", "choices have '1' twice"),
        ("Hyperparameter('a', choices='abc')", "choices is a tuple of values, not 'abc'"),
        ("Hyperparameter(None)", "default must be a number, a word, True or False, not None"),
        ("Hyperparameter(float('nan'))", "default must be a finite number"),
        ("Hyperparameter(2.0, low='1')", "bounds low, high and search must be numbers, not '1'"),
        ("Hyperparameter('a', low=1)", "default 'a' is not a number, so it has no low"),
        ("Hyperparameter(2.0, search=(3.0, 1.0))", "search .* must be a lower and a higher bound"),
        ("Hyperparameter(2.0, log=True, search=(0.0, 4.0))", "must begin above 0"),
    ],
)
def test_a_hyperparameter_that_does_not_hold_together(
    write: Callable[..., Path], declared: str, message: str
) -> None:
    loss = LOSS.replace("batch", "batch, *, power")
    path = write(f"{HEADER}{ASKS}hyperparameters={{'power': {declared}}})\n{loss}")
    with pytest.raises(UserError, match=message) as caught:
        load_file(path)
    assert f"objective 'o' in {path}: hyperparameter power" in str(caught.value)


STUDY = """
from harness.contracts import Profile, Row, Study
from harness.registry import study
study(Study(
    name="outside", title="Title", question="Question?", procedure="two_stage",
    rows=(Row("vanilla_kd", "vanilla_kd", "Vanilla KD"), Row("hid_cls", "hid_cls", "Hid-CLS")),
    students=("transformer",), layout="lines", metrics={},
    profiles={"quick": Profile("embedded", ("sentiment",), ("every",), trials=1, seeds=1, search={})},
))
"""


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ('Row("hid_cls"', 'Row("vanilla_kd"', "rows names 'vanilla_kd' twice"),
        ('"Hid-CLS"', '"Vanilla KD"', "labels of rows names 'Vanilla KD' twice"),
        ('"outside"', '"../outside"', r"study '\.\./outside' in .*: its name must have no '/'"),
        ('"outside"', '" outside"', "must begin with a letter or digit, and end without a space"),
        ("profiles={", "profiles={'a/b': 3, ", "profile 'a/b' in study 'outside' in .*: its name must have no '/'"),
        ("trials=1", "trials=0", "profile quick: trials must be a whole number of at least 1, not 0"),
        ("seeds=1", "seeds='1'", "seeds must be a whole number of at least 1, not '1'"),
        ('("sentiment",)', '"sentiment"', "tasks is a tuple of words, as in .* not 'sentiment'"),
        ('("every",)', '"every"', "inits is a tuple of words"),
        ('("transformer",)', '"transformer"', "students is a tuple of words"),
        ("{}", "{'learning_rate': ()}", "search of learning_rate is a list of values or a Hyperparameter"),
        ("lines", "grid", "layout is lines or matrix, not 'grid'"),
        ("layout", 'relative_to="hid_cl", layout', "relative_to names 'hid_cl', .* did you mean hid_cls"),
        ("metrics={}", "metrics='f1'", "metrics maps names to the metrics of a task, but is 'f1'"),
        ("profiles={", "profiles={'small': 3, ", "profile small must be a Profile, not 3"),
        ("rows=(", "rows='hid_cls', told=(", "rows is a tuple of rows"),
        ("layout", "analysis='entropy', layout", "analysis is masked_word_entropy or '', not 'entropy'"),
        ("layout", "figure=('units',), layout", "figure is the text of a horizontal axis, not"),
        ("metrics={}", "metrics={'sentiment': ()}", "metrics of sentiment is empty"),
        ("search", "row_settings={'hid_cl': {}}, search", "row_settings names 'hid_cl', .* did you mean hid_cls"),
    ],
)
def test_a_study_declared_wrongly_is_not_registered(
    write: Callable[..., Path], was: str, now: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        load_file(write(STUDY.replace(was, now, 1) if was != "{}" else STUDY.replace("search={}", f"search={now}")))
    assert "outside" not in STUDIES.names()
    load_file(write(STUDY, "right.py"))
    assert "outside" in STUDIES.names()


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("search", "settings={'epoch': 3}, search", "settings names 'epoch', which is no setting: did you mean epochs"),
        ("search={}", "search={'dist.temp': (1, 2)}", "names 'dist.temp', which is no setting: did you mean dist.te"),
        ("search", "task_settings={'sst': {}}, search", "names 'sst', which is no task: did you mean sst2?"),
        ("search", "row_settings={'hid_cls': {'epoch': 1}}, search", "of hid_cls names 'epoch', which is no"),
        ("metrics={", "metrics={'mrcp': 'f1'", "metrics names 'mrcp', which is no task: did you mean mrpc?"),
        ("metrics={", "metrics={'sentiment': 'acuracy'", "the first, one of the task's own: did you mean accuracy?"),
        ("metrics={", "metrics={'sentiment': ('accuracy', 'second')", "'second', which is no metric: did you mean s"),
    ],
)
def test_a_study_with_names_of_nothing_is_not_planned(
    write: Callable[..., Path], call: Harness, was: str, now: str, said: str
) -> None:
    path = write(STUDY.replace(was, now, 1))
    refused(call("plan", "--study", "outside", "--plugin", path), f"study 'outside' in {path}: ", said)


def test_a_file_that_names_what_another_one_registered_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "outside_beside.py").write_text(GOOD.replace("NAME", "outside"))
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text("from outside_beside import outside\n")
        load_file(tmp_path / name)
    assert "outside" in OBJECTIVES.names()
