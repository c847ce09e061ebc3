"""The pages that say what there is, written from the registry before each build: docs/catalogue is in no commit.

An objective's formula, source and notes are its docstring; settings, signals and refusals are what it declares.
"""

import inspect
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pairs

import harness
from harness.commands import declared
from harness.contracts import Task
from harness.data import embedded
from harness.registry import OBJECTIVES, SOURCES, STUDENTS, STUDIES, TASKS, TEACHERS
from harness.reports.papers.references import key_of, references

ROOT = Path(__file__).parent.parent.parent
KEPT = re.compile(r"(\$\$.*?\$\$|`[^`]*`)", re.DOTALL)  # formulas and code: written as they are
# Of each kind what its page of all begins with.
HEADS = {
    "objectives": "The losses that transfer knowledge, family by family. `--objectives` takes a name, or a weighted "
    "sum of names such as `0.5*att_kl+val_kl`: [how published losses are typed](../published_losses.md).",
    "students": "What is trained. `--students` takes a name, with settings where need be: `transformer:layers=6`.",
    "teachers": "What is imitated. `--teacher` takes a name, a hub name or a folder: [teachers](../teachers.md).",
    "tasks": "What students are asked. `--tasks` takes a name, or data of yours: [your own data](../own_data.md).",
    "studies": "What is compared. Every study answers a question; most answer a published table or figure.",
}
ASKED = {
    "cola": "Is an English sentence acceptable?",
    "sst2": "Is a phrase of a film review positive or negative?",
    "mrpc": "Do two sentences of the news say the same?",
    "qqp": "Do two questions ask the same?",
    "stsb": "How alike are two sentences, from 0 to 5?",
    "stsb_classes": "How alike are two sentences, as one of 21 classes in steps of 0.2 (galke2022).",
    "mnli": "Does a premise entail a hypothesis, contradict it, or neither?",
    "qnli": "Does a sentence answer a question?",
    "qnli_ranking": "Which sentence of a paragraph answers a question? Each gets one score (liu2020, 4.1.1).",
    "rte": "Does a text entail a hypothesis?",
    "wnli": "Is a sentence still true once its pronoun is replaced?",
}


def plain(text):
    """Prose of a docstring as Markdown: its stars, bars and underscores mean themselves."""
    parts = KEPT.split(textwrap.dedent(text).strip())
    return "".join(
        f"\n{part}\n" if part.startswith("$$") else part if number % 2 else re.sub(r"([\\*_<\[\]|#~$])", r"\\\1", part)
        for number, part in enumerate(parts)
    )


def doc(plugin):
    return plain(inspect.cleandoc(plugin.__doc__ or ""))


def line(text):
    """Text for a field of a table."""
    return " ".join(plain(str(text)).split())


def code(text):
    """Text in the type of code, in a field of a table."""
    return f"`{str(text).replace('|', chr(92) + '|')}`" if str(text) else ""


def table(header, rows):
    """In Markdown, without the columns that have nothing."""
    rows = [list(map(str, row)) for row in rows]
    kept = [place for place in range(len(header)) if any(row[place].strip() for row in rows)]
    lines = [[row[place] for place in kept] for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) if rows else ""


def works(text):
    """The works that a docstring names: their entry, title and address."""
    found = []
    for work in declared.works(text):
        if entry := references().get(key_of(work)):
            found.append(f"* {cited(entry)}")
    return "\n".join(dict.fromkeys(found))


def cited(entry):
    """A reference in a line: who, what, where."""
    field = {
        name: " ".join(re.sub(r"\\[\"'`^~]?|[{}]", "", value).split())
        for name, value in re.findall(r"^  (\w+)\s*= \{(.*?)\},\n(?=  \w+\s*=|\})", entry.text, re.M | re.S)
    }
    names = field.get("author", "").split(" and ")
    families = [name.split(",")[0] for name in names]
    who = f"{families[0]} et al." if families[2:] else " and ".join(families)
    where = f"https://doi.org/{field['doi']}" if "doi" in field else field.get("url", "")
    where = where or (f"https://arxiv.org/abs/{field['eprint']}" if "eprint" in field else "")
    title = f"[{line(field['title'])}]({where})" if where.startswith("https://") else f"*{line(field['title'])}*"
    return f"{line(who)} ({field['year']}). {title}"


def settings(declared_by, owner):
    """Settings with their defaults and ranges; what studies search that leave their ranges to plugins."""
    rows = []
    for name, h in declared_by.items():
        bounds = told(h) if h.choices or h.high is not None else f"at least {h.low:g}" if h.low is not None else ""
        searched = " to ".join(f"{bound:g}" for bound in h.search or ())
        also = f" Also called `{h.alias}`." if h.alias else ""
        rows.append([code(f"{owner}.{name}"), code(h.default), line(bounds), searched, line(h.says) + also])
    return table(["setting", "default", "range", "searched by families", "what it says"], rows)


def source(origin):
    return f"Its code: `{Path(origin).relative_to(ROOT)}`." if Path(origin).is_relative_to(ROOT) else ""


def joined(*parts):
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title, text, before=""):
    return joined(f"## {title}", before, text) if text else ""


# ---------------------------------------------------------------- of each kind: a name -> its page


def shipped(kind):
    """The names that this distribution registers, whatever else this process has loaded."""
    return [name for name in kind.names() if kind.ships(name)]


def objectives():
    reasons = pairs.reasons_of(pairs.bert)
    alike = {"intermediate": "as other examples", "prediction": "no"}
    used = {}
    for study in map(STUDIES.get, shipped(STUDIES)):
        for row in study.rows:
            for name in re.findall(r"[a-z_]\w*", row.objective):
                used.setdefault(name, {})[study.name] = None
    for name in shipped(OBJECTIVES):
        plugin = OBJECTIVES.get(name)
        labels = "are needed" if plugin.needs_labels else ""
        if plugin.without_labels:
            labels = f"are read, unless {', '.join(f'{k}={v:g}' for k, v in plugin.without_labels.items())}"
        facts = [
            ["signals", ", ".join(f"`{s.value}`" for s in sorted(plugin.needs, key=lambda s: s.value))],
            ["stage", plugin.stage],
            ["compares token by token", "yes" if plugin.token_level else "no"],
            ["labels", labels or "are not read"],
            ["candidates that are ranked", "yes" if plugin.ranks else alike[plugin.stage]],
        ]
        whom = [
            [f"[{student}](../students/{student}.md)", pairs.letters(found), line("; ".join(dict.fromkeys(why)))]
            for student, found in reasons.get(name, {}).items()
            for why in [filter(None, found.values())]
        ]
        module = inspect.getmodule(plugin.defined_by).__doc__ or ""
        yield name, joined(
            f"# {name}",
            doc(plugin),
            table(["", ""], facts),
            section("Settings", settings(plugin.hyperparameters, name)),
            section(
                "Who can be trained",
                table(["student", "on", "why not on others"], whom),
                "From a teacher of BERT-base's shape. S: single sentences with classes; P: pairs with classes; V: "
                "pairs with values; R: candidates that are ranked; C: a corpus without labels.",
            ),
            section("Studies with a row of it", ", ".join(f"[{s}](../studies/{s}.md)" for s in used.get(name, ()))),
            section("From", works(plugin.__doc__ or "") or works(module)),
            source(OBJECTIVES.origin(name)),
        )


def students():
    reasons = pairs.reasons_of(pairs.bert)
    for name in shipped(STUDENTS):
        plugin = STUDENTS.get(name)
        recipe = plugin.recipe(pairs.BERT)
        usual = [["start", code(recipe.start)], *([code(k), code(v)] for k, v in recipe.settings.items())]
        searched = [[code(k), line(told(v))] for k, v in recipe.search.items()]
        module = inspect.getmodule(plugin).__doc__ or ""
        starts = [
            [code(one.name), line(one.text.rpartition(";")[0])]
            for one in declared.lines("inits")
            if (of := one.text.rpartition("; of ")[2]) == "every student" or name in of.split(", ")
        ]
        facts = [
            ["emits", ", ".join(f"`{s.value}`" for s in sorted(plugin.emits, key=lambda s: s.value))],
            ["reads pairs", ", ".join(f"`{each}`" for each in plugin.pair_encodings)],
        ]
        trained = [
            [f"[{objective}](../objectives/{objective}.md)", pairs.letters(found[name])]
            for objective, found in reasons.items()
            if pairs.letters(found[name]) != "–"
        ]
        yield name, joined(
            f"# {name}",
            doc(plugin),
            table(["", ""], facts),
            section("Settings", settings(plugin.hyperparameters, "student")),
            section("Where it may start", table(["`--inits`", "what it is"], starts)),
            section("How its family is started, trained and searched", table(["", ""], usual + searched)),
            section("Objectives that can train it", table(["objective", "on"], trained)),
            section("From", works(f"{plugin.__doc__} {module}")),
            source(STUDENTS.origin(name)),
        )


def told(values):
    """What is searched: a grid, or from where to where."""
    if isinstance(values, (list, tuple)):
        return ", ".join(map(str, values))
    if values.choices:
        return ", ".join(map(str, values.choices))
    return f"{values.low:g} to {values.high:g}" + ", on a logarithmic scale" * values.log


def teachers():
    for name in shipped(TEACHERS):
        plugin = TEACHERS.get(name)
        module = inspect.getmodule(plugin).__doc__ or ""
        yield name, joined(f"# {name}", plain(module), doc(plugin), source(TEACHERS.origin(name)))


def tasks():
    for name in shipped(TASKS):
        task = TASKS.get(name)
        if not isinstance(task, Task):
            continue
        what = "classes " + ", ".join(f"`{label}`" for label in task.labels) if task.labels else ""
        what = what or (f"a score, as one of {len(task.bins)} classes" if task.bins else "a score")
        facts = [
            ["texts", "pairs" if task.pair else "single"],
            ["answer", "a score, by which candidates are ranked" if task.ranking else what],
            ["metric", ", ".join(f"`{metric}`" for metric in task.metrics)],
            ["training examples", f"about {task.examples:,}" if task.examples else ""],
            ["reported splits", ", ".join(f"`{split}`" for split in task.dev_splits)],
        ]
        sources = [SOURCES.get(one) for one in shipped(SOURCES) if task in SOURCES.get(one).tasks]
        known = [entry for entry in references().values() if any(n in (f"task:{name}",) for n in entry.names)]
        examples = ""
        if name in embedded.TWINS:
            rows = [
                [*(line(text) for text in texts if text), line(task.labels[int(y)]) if task.labels else f"{y:.2f}"]
                for *texts, y in embedded.generate(name, 4, 0)[0]
            ]
            examples = table(["text"] + ["second text"] * task.pair + ["label"], rows)
        profiles = [
            f"[{study.name}](../studies/{study.name}.md)"
            for study in map(STUDIES.get, shipped(STUDIES))
            if any(name in profile.tasks for profile in study.profiles.values())
        ]
        yield name, joined(
            f"# {name}",
            asked(task),
            table(["", ""], [fact for fact in facts if fact[1]]),
            section("Examples", examples),
            section("Where its examples come from", "\n".join(f"* `{s.name}`: {line(s.__doc__)}" for s in sources)),
            section("Studies that have it", ", ".join(profiles)),
            section("From", "\n".join(f"* {cited(entry)}" for entry in known)),
        )


def asked(task):
    """What a task asks, in a sentence."""
    if task.name in embedded.TWINS:
        return f"{task.label}, of the embedded grammar. {plain(inspect.getdoc(embedded.TWINS[task.name]))}"
    return f"{task.label}. {ASKED[task.name]}"


def studies():
    for name in shipped(STUDIES):
        study = STUDIES.get(name)
        sizes = [
            [
                code(size), code(p.teacher), line(", ".join(p.tasks)), line(", ".join(p.inits)), p.trials, p.seeds,
                line("; ".join(f"{k}: {told(v)}" for k, v in p.search.items())) or ("by family" if p.families else ""),
            ]
            for size, p in study.profiles.items()
        ]
        rows = [[code(r.name), line(r.label), code(r.objective), code(r.student), line(r.mark)] for r in study.rows]
        learners = [f"[{student}](../students/{student.partition(':')[0]}.md)" for student in study.students]
        published = study.published and joined(
            f"{line(study.published.source)}. The numbers: "
            + ", ".join(f"`reports/papers/published/{file}`" for file in study.published.files)
            + ".",
            "\n".join(f"* {line(note)}" for note in study.published.notes),
        )
        module = inspect.getdoc(sys.modules.get(f"harness.studies.{name}"))
        yield name, joined(
            f"# {name}",
            f"**{line(study.title)}.** {line(study.question)}",
            plain(module or ""),
            f"```sh\nharness plan --study {name}\nharness run --study {name}\n```",
            section("Rows", table(["row", "in tables", "objective", "student", "otherwise than the rest"], rows)),
            section(
                "Sizes",
                table(["profile", "teacher", "tasks", "initialisations", "trials", "seeds", "searched"], sizes),
                f"Procedure: `{study.procedure}`." + f" Students: {', '.join(learners)}." * bool(learners),
            ),
            section("What was published", published or "", "`--compare published` puts these beside ours."),
        )


KINDS = {"objectives": objectives, "students": students, "teachers": teachers, "tasks": tasks, "studies": studies}


def overview(kind, names):
    """The page of a kind: its names in a table, the pages of each below it."""
    found = {one.name: one for one in declared.lines(kind)}
    listed = sorted(names, key=lambda name: (found[name].family, name))
    rows = [[found[n].family] * (kind == "objectives") + [f"[{n}]({kind}/{n}.md)", line(found[n].text)] for n in listed]
    header = ["family"] * (kind == "objectives") + ["name", "what it is"]
    tree = "\n".join(["```{toctree}", ":hidden:", "", *(f"{kind}/{name}" for name in listed), "```"])
    return joined(f"# {kind.capitalize()}", HEADS[kind], table(header, rows), tree)


def words():
    """Settings, initialisations, procedures and metrics, which have a line each and not a page."""
    yield "settings", "Settings", "What `--set NAME=VALUE` takes, beside what plugins declare on pages of their own."
    yield "inits", "Initialisations", "What `--inits` takes. Each student takes those of the list that it knows."
    yield "procedures", "Procedures", "How the rows of a study are trained, or measured."
    yield "metrics", "Metrics", "What tasks are scored by; data of your own choose by `--set NAME.metric=METRIC`."
    yield "sources", "Sources of examples", "Where the examples of tasks come from."


def api():
    """What `import harness` gives: signatures and docstrings."""
    yield "# What `import harness` gives\n\nThe words of the command line as arguments: [in Python](../python.md).\n"
    for name in harness.__all__:
        found = getattr(harness, name)
        if name.startswith("__"):
            continue
        yield f"## `harness.{name}`\n\n{shown(found, name)}"
        if inspect.isclass(found) and not issubclass(found, Exception):
            members = [(n, m) for n, m in vars(found).items() if not n.startswith("_") and inspect.getdoc(m)]
            for method, member in members:
                function = member.fget if isinstance(member, property) else member
                if callable(function):
                    yield f"### `{name}.{method}`\n\n{shown(function, method, isinstance(member, property))}"


def shown(function, name, bare=False):
    text = inspect.getdoc(function) or ""
    if "\n\nArguments:" in text:
        text, _, told = text.partition("\n\nArguments:")
        told = f"\n\n```text\n{told.strip()}\n```"
    else:
        told = ""
    *prose, last = text.split("\n\n")
    called = prose and re.search(r"\w\(", last) and not last.endswith(".")
    example = f"\n\n```python\n{last}\n```" if called else ""
    prose = prose if example else [*prose, last]
    signature = f"{name}{inspect.signature(function)}" if not bare and not inspect.isclass(function) else ""
    signature = re.sub(r"<.*?>|'", "", signature)
    signature = f"```text\n{signature}\n```" if signature and not told else ""
    return joined(signature, plain("\n\n".join(prose))) + told + example + "\n"


def write(folder):
    """Every page of the catalogue."""
    shutil.rmtree(folder, ignore_errors=True)
    for kind, pages in KINDS.items():
        (folder / kind).mkdir(parents=True)
        made = dict(pages())
        for name, text in made.items():
            (folder / kind / f"{name}.md").write_text(text, encoding="utf-8")
        (folder / f"{kind}.md").write_text(overview(kind, made), encoding="utf-8")
    for kind, title, head in words():
        rows = [[code(one.name), line(one.text)] for one in declared.lines(kind)]
        text = joined(f"# {title}", head, table(["name", "what it is"], rows))
        (folder / f"{kind}.md").write_text(text, encoding="utf-8")
    (folder / "api.md").write_text("\n".join(api()), encoding="utf-8")


def setup(app):
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "catalogue"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
