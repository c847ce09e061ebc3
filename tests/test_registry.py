import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import registry
from harness.code_versions import outside
from harness.errors import UserError
from harness.registry import ALL, OBJECTIVES, STUDIES, load_file
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
from harness.modeling.bases import Objective
from harness.registry import objective, student, teacher

POWER = {"power": Hyperparameter(2.0)}
"""


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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
    assert {
        "labels_only",
        "vanilla_kd",
        "logit_mse",
        "hid_cls",
        "hid_seq",
        "hid_cls_contrast",
        "att_mse",
        "att_kl",
        "val_kl",
        "cosine",
    } <= set(OBJECTIVES.names())
    assert Path(OBJECTIVES.origin("att_kl")).parent.name == "objectives"


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(UserError, match="unknown objective 'atkl': did you mean att_kl"):
        OBJECTIVES.get("atkl")
    with pytest.raises(UserError, match="unknown objective 'zzzzz': valid names: att_kl, att_mse"):
        OBJECTIVES.get("zzzzz")


def test_a_plugin_file_adds_its_objective(write: Callable[..., Path]) -> None:
    path = write(GOOD.replace("NAME", "outside"))
    load_file(path)
    load_file(path)  # a second time changes nothing
    assert "outside" in OBJECTIVES.names()
    assert OBJECTIVES.origin("outside") == str(path)
    made = OBJECTIVES.get("outside")
    assert made.hyperparameters["power"].default == 2.0 and made.stage == "intermediate" and not made.token_level


def test_a_plugin_file_may_add_a_study(write: Callable[..., Path]) -> None:
    load_file(
        write(
            "from harness.contracts import Study\nfrom harness.registry import study\n"
            "study(Study('outside', 'Title', 'Question?', 'one_stage', (), (), {}))\n"
        )
    )
    assert STUDIES.get("outside").title == "Title"


def test_a_taken_name_names_both_files(write: Callable[..., Path]) -> None:
    path = write(GOOD.replace("NAME", "att_kl"))
    with pytest.raises(UserError, match="objective 'att_kl' is defined twice") as caught:
        load_file(path)
    assert str(path) in str(caught.value) and OBJECTIVES.origin("att_kl") in str(caught.value)


def test_two_plugin_files_with_one_name_name_both_files(write: Callable[..., Path]) -> None:
    first, second = (write(GOOD.replace("NAME", "outside"), name) for name in ("first.py", "second.py"))
    load_file(first)
    with pytest.raises(UserError, match="defined twice") as caught:
        load_file(second)
    assert str(first) in str(caught.value) and str(second) in str(caught.value)


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
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(write: Callable[..., Path], source: str, message: str) -> None:
    path = write(source)
    with pytest.raises(UserError, match=message) as caught:
        load_file(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_and_one_that_is_not_python_are_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.py does not exist"):
        load_file(tmp_path / "absent.py")
    with pytest.raises(UserError, match="does not exist"):
        load_file(tmp_path)
    with pytest.raises(UserError, match=r"must end in \.py"):
        load_file(write("", "plugin.txt"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "@objective('o', needs={Signal.LOGITS})\ndef f(student, batch): ...\n",
            r"f takes \(student, batch\) but must take \(student, teacher, batch\)",
        ),
        (
            "@objective('o', needs={Signal.LOGITS})\ndef f(teacher, student, batch): ...\n",
            "must take .student, teacher",
        ),
        ("@objective('o', needs={Signal.LOGITS})\ndef f(student, teacher, batch, power): ...\n", "but must take"),
        ("@objective('o', needs={Signal.LOGITS})\ndef f(student, teacher, batch, **rest): ...\n", "but must take"),
        (
            "@objective('o', needs={Signal.LOGITS}, hyperparameters=POWER)\ndef f(student, teacher, batch): ...\n",
            r"but must take \(student, teacher, batch, \*, power\)",
        ),
        (
            "@objective('o', needs={Signal.LOGITS})\nclass C(Objective):\n    def forward(self, student, batch): ...\n",
            r"forward takes \(self, student, batch\) but must take \(self, student, teacher, batch\)",
        ),
        (
            "@objective('o', needs={Signal.LOGITS}, hyperparameters=POWER)\nclass C(Objective):\n"
            "    def forward(self, student, teacher, batch): ...\n",
            "__init__ takes",
        ),
        (
            "@objective('o', needs={Signal.LOGITS})\nclass C:\n    pass\n",
            "must be a function or a subclass of Objective",
        ),
        (
            "@objective('o', needs={Signal.LOGITS}, stage='final')\ndef f(student, teacher, batch): ...\n",
            "stage is intermediate or prediction, not 'final'",
        ),
        ("@student('s', emits={Signal.LOGITS})\nclass S:\n    pass\n", "student 's' must be a subclass of Student"),
        ("@teacher('t')\ndef t(): ...\n", "teacher 't' must be a subclass of Teacher"),
    ],
)
def test_a_plugin_declared_wrongly_says_what_is_wrong(write: Callable[..., Path], source: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_file(write(HEADER + source))
    assert "\n" not in str(caught.value)
    assert "o" not in OBJECTIVES.names()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Install a distribution of one module with pip, as a plugin's user would, into this test's own environment."""

    def installed(module: str, source: str) -> Path:
        wheel, information = tmp_path / f"{module}-1.0-py3-none-any.whl", f"{module}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{module}.py", source)
            archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
            archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{information}/entry_points.txt", f"[harness.plugins]\nmine = {module}\n")
            archive.writestr(f"{information}/RECORD", "")
        target = tmp_path / "environment"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--no-deps",
                "--no-cache-dir",
                "--disable-pip-version-check",
                "--target",
                str(target),
                str(wheel),
            ],
            check=True,
            timeout=120,
        )
        monkeypatch.syspath_prepend(str(target))
        return target / f"{module}.py"

    return installed


def test_an_installed_distribution_adds_its_objective(install: Callable[[str, str], Path]) -> None:
    file = install("outside_good", GOOD.replace("NAME", "outside"))
    assert "outside" in OBJECTIVES.names()
    assert OBJECTIVES.origin("outside") == str(file)


def test_an_installed_objective_is_found_by_name_alone(install: Callable[[str, str], Path]) -> None:
    install("outside_named", GOOD.replace("NAME", "outside"))
    assert OBJECTIVES.get("outside").name == "outside"


def test_an_installed_distribution_with_a_taken_name_names_both_files(install: Callable[[str, str], Path]) -> None:
    file = install("outside_taken", GOOD.replace("NAME", "hid_seq"))
    with pytest.raises(UserError, match="'hid_seq' is defined twice") as caught:
        OBJECTIVES.names()
    assert str(file) in str(caught.value) and OBJECTIVES.origin("hid_seq") in str(caught.value)


def test_a_broken_installed_distribution_is_named(install: Callable[[str, str], Path]) -> None:
    install("outside_broken", "import nothing_of_that_name\n")
    with pytest.raises(UserError, match=r"installed plugin 'mine' \(outside_broken\) cannot be loaded: ModuleNotFound"):
        OBJECTIVES.names()
