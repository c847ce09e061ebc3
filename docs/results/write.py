"""The pages of this folder, from the packed ledgers beside them: python docs/results/write.py [NAME=FOLDER ...].

NAME=FOLDER packs a folder of results as NAME.tar.xz first, which pages.yaml has to tell of. Then every page is written
anew: a study's from its ledger, claims.md from claims.yaml and all of them, the overview in index.md, and in
../choosing.md what transfers gain. `make results`.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

sys.path.extend([str(Path(__file__).parent), str(Path(__file__).parent.parent)])

import claimed
import gains
from packed import HERE, Results, Told, archive, opened, pack, results, told
from shown import between, draw, save

from harness import registry, reports
from harness.cli import main

OLDER = "made with another version of"  # of a sentence below a table that tells of this checkout, not of the results


def page(made: Results) -> str:
    """The page of a packed ledger; its last part is what `harness report` prints."""
    entry, name = made.told, made.told["name"]
    compare = " --compare published" if made.table.comparison else ""
    found = f"\n{entry['found'].strip()}\n" if "found" in entry else ""
    pictures = "\n\n".join(_picture(f"{name}-{kind}", entry["figures"][kind]) for kind in figures(made))
    return f"""# {entry["title"]}

{entry["about"].strip()}

<!-- not run: hours of training -->
```sh
{entry["command"].strip()}
```

| | |
|---|---|
{facts(made)}

The records are [packed beside this page](index.md#the-packed-ledgers): `{archive(name).name}`. The page of
[claims](claims.md) judges the four works by them.
{found}
{pictures}

From the packed ledger, this command prints the rest of this page:

<!-- not run: of the archive as it is unpacked -->
```sh
harness report --study {entry["study"]} --profile {entry["profile"]}{compare} --format markdown --out {name}
```

{unversioned(reports.render(made.table, "markdown")).strip()}
{_beside(entry) if "beside" in entry else ""}"""


def _beside(entry: Told) -> str:
    """The rows of another packed ledger beside those of this one, as `harness report --compare` prints them."""
    asked = f"report --study {entry['study']} --profile {entry['profile']} --format markdown --out".split()
    with opened(entry["name"]) as folder, opened(entry["beside"]) as other, redirect_stdout(io.StringIO()) as said:
        if main([*asked, str(folder), "--compare", str(other)]):
            raise SystemExit(f"{entry['beside']} cannot be shown beside {entry['name']}")
    _, title, rest = said.getvalue().partition("## Beside other results\n")
    return f"""
The ledger of [another page]({entry["beside"]}.md) has the same rows with other settings. This command adds them:

<!-- not run: of the archives as they are unpacked -->
```sh
harness {" ".join(asked)} {entry["name"]} --compare {entry["beside"]}
```

{title}
{unversioned(rest).strip()}
"""


def unversioned(report: str) -> str:
    """A table in Markdown but for what it tells of the code of this checkout."""
    return "\n".join(line for line in report.splitlines() if OLDER not in line)


def facts(made: Results) -> str:
    """What was run, for how long and on what, as rows of a table."""
    status = Counter(record["status"] for record in made.records)
    runs = made.table.runs
    done = sum(row["part"] in ("trial", "seed") for row in runs)
    cells = {row["cell"]: row for row in runs if not row["refused"]}
    further = (0 if row["by_seed"] else row["wanted_seeds"] - 1 for row in cells.values())
    wanted = sum(row["wanted_trials"] for row in cells.values()) + sum(further)
    made_on = [record["made_on"] for record in made.records if "made_on" in record]
    lines = {
        "runs of cells": f"{done:,} of {wanted:,}{'' if done == wanted else ', the rest under way'}",
        "all runs": f"{status['finished']:,} finished, {status['failed']:,} failed, including teachers",
        "core hours": f"{made.hours:.1f}",
        "machine": "; ".join(sorted({each["machine"] for each in made_on})),
        "made by": "; ".join(sorted({each["harness"] for each in made_on})),
    }
    return "\n".join(f"| {what} | {said} |" for what, said in lines.items())


def figures(made: Results) -> list[str]:
    """The figures of pages.yaml that can be drawn of the table."""
    return [kind for kind in made.told["figures"] if reports.FIGURES[kind].rows(made.table)[0]]


def _picture(name: str, title: str) -> str:
    return "\n\n".join(
        f"```{{image}} ../static/{name}-{theme}.svg\n:class: figure only-{theme}\n:alt: {title}\n```"
        for theme in ("light", "dark")
    )


def overview(found: Mapping[str, Results]) -> str:
    """The table of index.md."""
    lines = ["| study | data | runs | core hours | ledger |", "|---|---|---:|---:|---|"]
    for name, made in found.items():
        file = archive(name)
        lines.append(
            f"| [{made.told['title']}]({name}.md) | {data(made)} | "
            f"{len(made.records):,} | {made.hours:.1f} | [{file.name}]({file.name}), "
            f"{file.stat().st_size / 1e3:,.0f} kB |"
        )
    return "\n".join(lines)


def data(made: Results) -> str:
    """What it was trained on; nothing where it was only measured."""
    if registry.STUDIES.get(made.told["study"]).procedure == "speed":
        return "none, measured"
    return "real" if made.told["real"] else "embedded"


def write(*packs: str) -> None:
    studies = {entry["name"]: entry["study"] for entry in told("pages")}
    for word in packs:
        name, _, folder = word.partition("=")
        if name not in studies or not folder:
            raise SystemExit(f"{word} is not NAME=FOLDER; names in docs/results/pages.yaml: {', '.join(studies)}")
        pack(name, Path(folder), studies[name])
    found = results()
    for name, made in found.items():
        for kind in figures(made):
            draw(made.table, f"{name}-{kind}", kind)
        (HERE / f"{name}.md").write_text(page(made), encoding="utf-8")
    (HERE / "claims.md").write_text(claimed.page(found), encoding="utf-8")
    between(HERE / "index.md", overview(found), "results")
    between(HERE.parent / "choosing.md", gains.table(found), "results")
    save(gains.drawn(found), "gains")


if __name__ == "__main__":
    write(*sys.argv[1:])
