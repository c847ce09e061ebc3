"""The command line: parses, calls, prints. Refusals of wrong names come before anything heavy is imported."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from harness import collecting
from harness.commands import flags, words
from harness.commands.flags import Parser, Version
from harness.errors import MISTAKE, UserError, check_known, sentence, status_of


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="harness",
        description="Compare distillation objectives fairly, and print the table.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the version and stop")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    _add_working(commands)
    _add_report(commands)
    _add_looking(commands)
    _add_keeping(commands)
    _add_others(commands)
    flags.acquaint(commands.choices.values())
    return top


def arguments_of(command: str) -> dict[str, argparse.Action]:
    """The flags of a command by the names that they have in Python: "run_timeout" for --run-timeout."""
    commands = next(each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)).choices
    check_known("command", command, commands)
    found = commands[command]
    return {action.dest: action for action in found._actions if action.dest != "help"}


def _command(commands: Any, name: str, help: str, text: str = "", **others: Any) -> argparse.ArgumentParser:
    """One command. text: what its own help says of it, where that is more than `help`."""
    whole = text or f"{help[0].upper()}{help[1:]}."
    return commands.add_parser(name, help=help, description=whole, allow_abbrev=False, **others)


def _add_working(commands: Any) -> None:
    """The commands that train, and what they would."""
    command = partial(_command, commands, parents=[flags.selection()])
    run = command(
        "run",
        "train the runs that are missing, then print the table",
        "Train the runs that are missing, then print the table. A second call trains nothing.",
    )
    run.add_argument("--workers", type=int, metavar="N", help="runs at a time (default: one per core; GPUs: measured)")
    run.add_argument("--mps", action="store_true", help="share a GPU between runs by CUDA's Multi-Process Service")
    run.add_argument("--executor", default="local", choices=("local", "ray"), help="local (default) or ray")
    run.add_argument("--address", metavar="HOST:PORT", help="ray: join this cluster (default: start Ray here)")
    run.add_argument("--cpus-per-run", type=float, metavar="N", help="ray: CPUs per run (default: 1)")
    run.add_argument("--gpus-per-run", type=float, metavar="N", help="ray: GPUs per run, or part of one (default: 0)")
    run.add_argument("--shared-out", action="store_true", help="ray: every node sees the --out folder, so copy nothing")
    run.add_argument(
        "--refresh", action="store_true", help="repeat runs of another version of the code (harness plan lists them)"
    )
    run.add_argument(
        "--keep",
        default="best",
        choices=("best", "all", "none"),
        help="weights to keep for harness export: of each cell's best run (default), of all runs, or none",
    )
    run.add_argument(
        "--track",
        choices=words.TRACKERS,
        help="also log every run's losses, selection score and learning rate there (files in OUT/track)",
    )
    run.add_argument(
        "--run-timeout", metavar="TIME", help="stop a run that takes longer: seconds, or 30m, 2h (default: never)"
    )
    flags.add_layout(run)
    run.add_argument("--storage", metavar="URL", help="Optuna's database (default: optuna.db in the --out folder)")
    flags.add_columns(run)
    command(
        "distil-corpus",
        "train only the distillations on a corpus, with all processes of a launch",
        "Train the distillations on a corpus that a study starts from, with all processes that torchrun or "
        "accelerate launch started; harness run then continues from them.",
        aliases=["pretrain"],  # as it was called first
    )
    plan = command(
        "plan",
        "show what a run would do; trains nothing",
        "List every cell, every run and every refusal with its reason, and estimate the time.",
    )
    plan.add_argument("--workers", type=int, metavar="N", help="for the estimate (default: the number of cores)")
    plan.add_argument("--explain", action="store_true", help="instead, show each setting beside what the paper says")


def _add_report(commands: Any) -> None:
    """The command that prints the table."""
    report = _command(
        commands,
        "report",
        "print the table from the recorded runs",
        "Print the table of the recorded runs: of the whole study, or of what the flags of harness run select.",
        parents=[flags.selection(made=True)],
    )
    report.add_argument(
        "--format",
        default="terminal",
        metavar="FORMAT",
        help="the table: markdown, latex, csv, html, json or terminal (default); every run: jsonl, parquet; the "
        "methods section of a paper: methods, its references: bibtex; for collections of results, as files in the --to "
        "folder: eval_results (Hugging Face's), every_eval_ever",
    )
    report.add_argument("--to", metavar="FOLDER", help="the folder for the files of eval_results and every_eval_ever")
    flags.add_layout(report)
    report.add_argument(
        "--against",
        default="",
        metavar="ROW",
        help="add each row's difference to this row, to the best or to none (default: the study's own reference row)",
    )
    report.add_argument(
        "--with",
        **flags.SEVERAL,
        dest="additions",
        choices=words.ADDITIONS,
        help="add below the table (as csv: print instead of it, one at a time) over_tasks: a test over five tasks or "
        "more; selection: what selecting on dev would have added; tuning: scores by number of trials; sensitivity: "
        "scores by the settings that were tried",
    )
    report.add_argument(
        "--compare",
        metavar="published|FOLDER",
        help="show the published numbers beside ours; or the same rows of another table, that of a folder with a "
        "plan.json or, in another folder of results, of the same flags, with tested differences, also of the gains "
        "over the reference row",
    )
    flags.add_columns(report)


def _add_looking(commands: Any) -> None:
    """The other commands that read what is recorded."""
    seen = flags.selection(made=True)
    figures = _command(
        commands,
        "figures",
        "write the table's figures as files for a paper",
        "Write the figures of the table as SVG, PDF (fonts embedded) and PNG, with their data as CSV.",
        parents=[seen],
    )
    figures.add_argument(
        "names", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(words.FIGURES)} (default: all it has)"
    )
    figures.add_argument("--to", metavar="FOLDER", help="the folder to write to (default: figures, beside the table)")
    figures.add_argument(
        "--width",
        default="both",
        choices=words.WIDTHS,
        help="one column of a paper (3.3 inches), two (6.9) or both (default)",
    )
    flags.add_columns(figures)
    _command(commands, "status", "show which runs are done, running, failed and left", parents=[seen])
    submit = _command(
        commands,
        "submit",
        "write GLUE submission files, or record the scores that the server gave them",
        "Predict GLUE's test splits with the best run of each cell of a row, which is trained again for that, "
        "and write the files that GLUE's server takes. Or record the scores that the server gave them, which "
        "comparisons with published test scores then show.",
        parents=[flags.kind(made=True)],
    )
    submit.add_argument("--row", required=True, metavar="ROW", help="which row of the study's table")
    submit.add_argument("--student", metavar="S", help="which student, where the row has several")
    submit.add_argument("--init", metavar="I", help="which initialisation, where the row has several")
    submit.add_argument("--tasks", nargs="+", metavar="A", help="only these tasks")
    submit.add_argument("--data", metavar="DIR", help="the folder of the test files (default: the plan's data)")
    what = submit.add_mutually_exclusive_group(required=True)
    what.add_argument("--to", metavar="FOLDER", help="the folder to write to")
    what.add_argument("--scores", metavar="FILE", help="a CSV (task,metric,score) of the server's scores, in points")


def _add_keeping(commands: Any) -> None:
    """The commands that look after folders of results."""
    command = partial(_command, commands)
    merge = command("merge", "combine the runs and plans of several folders of results")
    merge.add_argument("folders", nargs="+", metavar="FOLDER", help="folders of results; they are not changed")
    merge.add_argument("--into", required=True, metavar="FOLDER", help="another or a new folder; its runs are kept")
    pack = command(
        "pack",
        "copy a folder of results, without its caches, for somebody else",
        "Copy a folder of results without its caches. On any machine, report and run continue from it and repeat no "
        "training.",
    )
    pack.add_argument("--to", required=True, metavar="FOLDER|FILE", help="a new folder, or a .zip, .tar or .tar.gz")
    clean = command(
        "clean",
        "remove what a folder of results does not need",
        "Remove caches of other versions of the code, caches and weights of runs in no plan, and leftovers of "
        "interrupted runs. Records, predictions and tables are kept.",
    )
    clean.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    remove = command("remove", "remove a run, or all runs of a cell; the next harness run repeats them")
    remove.add_argument("what", metavar="RUN|CELL", help="an id or the start of one")
    for parser in (pack, clean, remove):
        parser.add_argument("--out", default="results", metavar="DIR", help="the folder of results (default: results)")
    for parser in (clean, remove):
        parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_others(commands: Any) -> None:
    """The commands for trained students, and all the rest."""
    command = partial(_command, commands)
    convert = command("convert", "convert a teacher of another library to a folder in Hugging Face's format")
    convert.add_argument("teacher", metavar="TEACHER", help="as for --teacher: fairseq:FOLDER")
    convert.add_argument("--to", required=True, metavar="FOLDER", help="a new folder, to give to --teacher")
    export = command("export", "write a run, or the best run of a cell, to a folder in Hugging Face's format")
    export.add_argument("what", metavar="CELL|RUN", help="an id or the start of one, as for harness show")
    export.add_argument("--to", required=True, metavar="FOLDER", help="a new folder")
    export.add_argument("--onnx", action="store_true", help="also write an ONNX graph")
    export.add_argument("--push", metavar="NAME", help="also upload it to the hub, as USER/NAME")
    predict = command("predict", "predict texts with a trained student: labels and probabilities, or scores")
    predict.add_argument("what", metavar="CELL|RUN|FOLDER", help="as for harness export, or a folder that it wrote")
    predict.add_argument(
        "--input",
        required=True,
        metavar="FILE|-",
        help="one text per line, or a table with the task's columns; - for a pipe",
    )
    predict.add_argument("--output", metavar="FILE", help="csv, tsv or JSON lines (default: printed as JSON lines)")
    predict.add_argument("--copy", nargs="+", metavar="COLUMN", help="further columns to write, such as an id")
    show = command("show", "show one cell or run: its value, how it was selected, from which runs, why it failed")
    show.add_argument("what", metavar="CELL|RUN", help="an id, or the start of one, from a table in JSON or CSV")
    listing = command("list", "list every name of one kind")
    listing.add_argument("kind", metavar="KIND", help=f"one of {', '.join(words.KINDS)}")
    plugin = command("new", "write a plugin file, ready to fill in")
    plugin.add_argument("kind", choices=words.NEW, help="plugin: a package to install, with pyproject.toml and tests")
    plugin.add_argument("name", metavar="NAME")
    for parser in (convert, listing, predict):
        parser.add_argument("--plugin", **flags.SEVERAL, metavar="FILE")
    for parser in (export, predict, show):
        parser.add_argument("--out", default="results", metavar="DIR")


# Where the function of a command's name is, in harness.commands; where it is called otherwise, MODULE.FUNCTION.
MODULES = {
    **dict.fromkeys(("run", "plan"), "run"),
    **dict.fromkeys(("status", "show"), "view"),
    **dict.fromkeys(("merge", "pack"), "merge"),
    **dict.fromkeys(("clean", "remove"), "clean"),
    "list": "listing.list_names",
    "pretrain": "distil_corpus.distil_corpus",
}


def work_of(command: str) -> Callable[[argparse.Namespace], int]:
    """What a command does, given its flags; it returns the exit status. Only now is it imported."""
    name = command.replace("-", "_")
    module, _, function = MODULES.get(name, name).partition(".")
    return getattr(_module(module), function or name)


def _module(name: str) -> Any:
    return importlib.import_module(f"harness.commands.{name}")


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which schedulers and `kill` ask a command to end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, 1 if a cell failed, one of `errors`, 130 or 143 where stopped."""
    _open_streams()
    if sys.platform == "win32":  # which has neither the locks of files nor the processes that all else rests on
        return _refused("Windows is not supported: use the harness in its Subsystem for Linux (wsl --install)")
    try:
        with _listening_to_signals():
            whole = parser()
            if "_ARGCOMPLETE" in os.environ:  # a shell asks what could be typed
                import argcomplete

                _module("completion").add_to(whole)
                argcomplete.autocomplete(whole)
            options = whole.parse_args(arguments)
            if arguments is None:
                collecting.of_one_command()
            status = work_of(options.command)(options)
            sys.stdout.flush()
            return status
    except UserError as error:
        return _refused(str(error), error.status)
    except BrokenPipeError:  # the reader of a pipe went away, as in `harness report | head`
        _print_nothing_more()
        return 0
    except OSError as error:  # of a file, a folder or a disk that nothing of ours expected to fail
        if error.filename is not None:
            return _refused(f"{error.filename} cannot be used: {error.strerror}", status_of(error))
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            _print_nothing_more()
            return _refused(f"what is printed cannot be written: {error.strerror}", status_of(error))
        if not os.path.exists(os.curdir):
            return _refused("the current folder does not exist any more: go to another")
        raise
    except KeyboardInterrupt as error:
        by, status = (" by SIGTERM", 143) if isinstance(error, Terminated) else ("", 130)
        print(f"harness: stopped{by}; finished runs are kept, and the same command goes on from here", file=sys.stderr)
        return status


@contextlib.contextmanager
def _listening_to_signals() -> Iterator[None]:
    """Have SIGTERM stop the command as Ctrl-C does, and neither be lost.

    Not in a launch, whose processes must not wait for one another. Whoever calls `main` has his own handler back,
    unless the command was stopped: `timeout` sends the signal twice.
    """
    if "RANK" in os.environ or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # what is being ended, ends in order
        raise Terminated

    def lost(told: sys.UnraisableHookArgs) -> None:
        """Send again what came while a `__del__` ran, of which Python would only print that it is ignored."""
        if not isinstance(told.exc_value, KeyboardInterrupt):
            return hook(told)
        number = signal.SIGTERM if isinstance(told.exc_value, Terminated) else signal.SIGINT
        if number == signal.SIGTERM:
            signal.signal(number, stop)
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()  # not here, where it would be lost again

    hook, sys.unraisablehook = sys.unraisablehook, lost
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if signal.getsignal(signal.SIGTERM) is stop:
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # None: of a program in C


def _refused(text: str, status: int = MISTAKE) -> int:
    print(f"harness: {sentence(text)}", file=sys.stderr)
    return status


def _open_streams() -> None:
    """Streams that were closed lead nowhere, and what no terminal shows is in UTF-8, as all our files are."""
    for number in range(3):  # for the processes that train, too; the next file opened would have the number otherwise
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, io.TextIOWrapper):
            if isinstance(stream.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: what a full disk leaves out is not told
                stream = open(stream.fileno(), "w", buffering=1, encoding=stream.encoding, closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _print_nothing_more() -> None:
    """So that what is left in the buffer is no trouble at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
