"""Places that cannot be read, of every kind of data: a sentence, and nothing waits for a pipe."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.data import corpora, loading, own
from harness.data.tasks import get_task
from harness.errors import UserError
from tests.data.test_hostile_data import GOOD, reads

RTE = "sentence1\tsentence2\tlabel\nA\tB\tentailment\nC\tD\tnot_entailment\n"
NOBODY = 65534
Reader = Callable[[Path], object]


def glue(root: Path) -> object:
    return loading.load(get_task("rte"), str(root))


def corpus(root: Path) -> object:
    return list(corpora.documents(str(root)))


READERS: dict[Reader, tuple[str, str]] = {  # and a file that it reads, and what is in it
    reads: ("train.csv", GOOD),
    glue: ("RTE/train.tsv", RTE),
    corpus: ("below/a.txt", "some words\n"),
}


@pytest.fixture(params=READERS, ids=lambda reader: reader.__name__)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Reader, Path, Path]]:
    """(who reads, a folder, a file in it), outside pytest's folders, which only their owner may enter."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        os.chmod(root, 0o755)
        file, content = READERS[request.param]
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(content)
        if request.param is glue:
            (root / "RTE/dev.tsv").write_text(RTE + "E\tF\tentailment\n")
        request.param(root)  # which is sound, and all that reads it is imported
        own.KNOWN.clear()
        yield request.param, root, root / file
        own.KNOWN.clear()


def refusal(read: Reader, place: object) -> str:
    with pytest.raises(UserError) as refused:
        read(place)  # type: ignore[arg-type]
    return str(refused.value)


@contextmanager
def closed(path: Path) -> Iterator[None]:
    """Where an ordinary user may not read it: the superuser may read whatever is closed."""
    mode, user = path.stat().st_mode, os.geteuid()
    os.chmod(path, 0)
    if not user:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        os.chmod(path, mode)


def test_no_file_where_one_is_looked_for(place: tuple[Reader, Path, Path]) -> None:
    read, root, file = place
    said = {
        os.mkfifo: f"{file} is a pipe or a device, but data are read more than once: give a file",
        lambda path: path.symlink_to("gone"): f"{file} is a link to {file.parent / 'gone'}, which does not exist",
        lambda path: path.symlink_to(path): f"{file} cannot be read: Too many levels of symbolic links",
    }
    for make, message in said.items():
        file.unlink()
        make(file)
        assert refusal(read, root) == message


def test_what_may_not_be_read(place: tuple[Reader, Path, Path]) -> None:
    read, root, file = place
    for what in {file, file.parent, root}:
        with closed(what):
            assert "cannot be read: Permission denied" in refusal(read, root)


def test_names_that_no_place_has(place: tuple[Reader, Path, Path]) -> None:
    read, root, file = place
    for name, message in (("a\0b", "a NUL"), ("a" * 300, "File name too long"), ("~nobody at all/a", "not exist")):
        assert message in refusal(read, name)
    (root / "link").symlink_to("gone")
    assert refusal(read, root / "link") == f"{root / 'link'} is a link to {root / 'gone'}, which does not exist"
    assert "is a pipe or a device" in refusal(read, "/dev/zero")


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.csv").mkdir()
    assert refusal(reads, tmp_path) == f"{tmp_path / 'train.csv'} is a folder, but must be a file of examples"
    (tmp_path / "RTE/train.tsv").mkdir(parents=True)
    assert refusal(glue, tmp_path).endswith("RTE/train.tsv, which is a folder")
    assert refusal(glue, Path(__file__)) == f"data folder {__file__} is a file"


def test_a_settings_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(GOOD)
    os.mkfifo(tmp_path / "mine.yaml")
    for place in (tmp_path, tmp_path / "train.csv", tmp_path / "mine.yaml"):
        assert "mine.yaml is a pipe or a device" in refusal(reads, place)


def test_what_is_not_read_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(GOOD)
    (tmp_path / "dev.csv").write_text("text,label\nso,no\noh,yes\n")
    (tmp_path / "test.csv").symlink_to("gone")
    (tmp_path / ".#train.csv").symlink_to("editor@machine")
    assert "2 reported (dev)" in reads(tmp_path).told
