"""The rules of evidence, on cells whose numbers are known."""

import random
import subprocess
import sys
from dataclasses import replace

import pytest

from harness.contracts import CheckpointRow, Profile, Row, RunResult, TeacherRow
from harness.errors import UserError
from harness.reports import FORMATS, build, failed_cells, render, with_published
from harness.reports.tables.layout import entry_text, heading
from tests.reports.synthetic import PROVENANCE, ROWS, STUDY, TASKS, cell, entries, mixed, run, score, table

VANILLA, HID, ATT, VAL = ROWS


def test_average_takes_its_spread_from_the_averages_of_the_seeds():
    average = entries(table([cell(ATT, "sst2", (80, 90)), cell(ATT, "rte", (70, 60))]))["att_kl"][-1]
    assert (average.value, average.std, average.n) == pytest.approx((0.75, 0.0, 2))  # 75 and 75, whatever the tasks do


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": (run(99),)},
        {"seeds": ()},
        {"seeds": (), "failures": {"x": "NaN"}},
        {"refused": "no"},
        {"wanted_trials": 2},
    ],
)
def test_only_a_complete_cell_is_best_or_averaged(changes):
    made = entries(
        table(
            [
                cell(ATT, "sst2", (99, 99), **changes),
                cell(ATT, "rte", (80, 80)),
                cell(VAL, "sst2", (50, 50)),
                cell(VAL, "rte", (50, 50)),
            ]
        )
    )
    assert not made["att_kl"][0].best and made["att_kl"][-1].status == "absent"
    assert made["att_kl+val_kl"][0].best and made["att_kl+val_kl"][-1].best
    assert made["att_kl"][1].best


def test_a_failed_trial_is_told_where_the_seeds_are_complete():
    made = table([cell(ATT, "sst2", (80, 80), wanted_trials=2, failures={"x": "NaN"})])
    assert made.reasons == ("1 of this cell's runs failed; the value is that of the others",)
    assert entries(made)["att_kl"][0].best and entries(made)["att_kl"][0].note == 1


def test_an_average_tells_of_the_runs_that_failed_on_its_tasks_each_of_them_once():
    def made(first, second):
        return table([
            cell(ATT, "sst2", (80, 80), wanted_trials=2, failures=first),
            cell(ATT, "rte", (70, 70), wanted_trials=1 + bool(second), failures=second),
            cell(VAL, "sst2", (60, 60)), cell(VAL, "rte", (60, 60)),
        ])  # fmt: skip

    alone, both, joint = made({"x": "NaN"}, {}), made({"x": "NaN"}, {"y": "NaN"}), made({"x": "NaN"}, {"x": "NaN"})
    one, two = (f"{n} of this cell's runs failed; the value is that of the others" for n in (1, 2))
    assert [e.reason for e in entries(alone)["att_kl"]] == [one, "", one]
    assert [e.reason for e in entries(both)["att_kl"]] == [one, one, two]
    assert [e.reason for e in entries(joint)["att_kl"]] == [one, one, one], "a run on both tasks failed once"
    assert not any(e.reason for e in entries(both)["att_kl+val_kl"]) and entries(both)["att_kl"][-1].best


def test_a_cell_that_waits_for_seeds_has_not_failed_for_a_trial_that_did():
    """Seeds that failed make a cell one that is not to be finished; a setting that failed in its search does not."""
    common = {"trials": (run(80),), "wanted_trials": 2}
    waiting = cell(ATT, "sst2", (80,), **common, failures={"x": "NaN"})
    failed = cell(VAL, "sst2", (80,), **common, failures={"x": "NaN", "y": "NaN"})
    made = table([waiting, failed])
    assert [entry_text(entries(made)[row.name][0]) for row in (ATT, VAL)] == ["80.0 (1/2)", "80.0 (1/2, failed)"]
    assert failed_cells(made) == [failed.cell]


@pytest.mark.parametrize(("wanted", "status"), [(3, "waiting"), (1, "failed")])
def test_a_cell_has_failed_once_no_other_trial_is_to_come(wanted, status):
    begun = cell(ATT, "sst2", (), trials=(), wanted_trials=wanted, failures={"x": "NaN"})
    made = table([begun, cell(VAL, "sst2", (80, 80))])
    assert entries(made)["att_kl"][0].status == status


def test_a_cell_whose_teacher_failed_has_failed_whatever_its_budget_and_keeps_what_it_has():
    lost = {"wanted_trials": 3, "before": {"t": "teacher failed: NaN"}}
    nothing, some = cell(ATT, "sst2", (), trials=(), **lost), cell(VAL, "sst2", (80,), **lost)
    whole = cell(HID, "sst2", (80, 80), **{**lost, "wanted_trials": 1})
    made = table([nothing, some, whole])
    texts = [entry_text(entries(made)[row.name][0]) for row in (ATT, VAL, HID)]
    assert texts == ["failed", "80.0 (1/2, failed)", "80.0 ± 0.0"]
    assert failed_cells(made) == [nothing.cell, some.cell], "which make the exit status 1"
    assert not made.reasons, "none of its own runs failed"


def test_best_is_over_all_initialisations_and_equal_values_are_all_best():
    made = table(
        [
            cell(ATT, "sst2", (90, 80)),
            cell(VAL, "sst2", (85, 85)),
            cell(ATT, "sst2", (85, 85), "random"),
            cell(VAL, "sst2", (60, 60), "random"),
        ]
    )
    assert [e["att_kl"][0].best for e in (entries(made), entries(made, "random"))] == [True, True]
    assert entries(made)["att_kl+val_kl"][0].best and not entries(made, "random")["att_kl+val_kl"][0].best


def test_the_teacher_and_other_references_never_take_the_bold_from_the_students():
    teacher, large = TeacherRow("it", "Teacher"), CheckpointRow("large", "Large", "hub/large", reference=True)
    scores = ((teacher, (100, 100)), (large, (86, 86)), (ATT, (86, 86)), (VAL, (84, 86)))
    study = replace(STUDY, rows=tuple(row for row, _ in scores))
    made = table([cell(row, "sst2", right) for row, right in scores], study)
    found = {x.row.name: x.entries[0] for block in made.blocks for x in block.lines}
    assert [(e.best, e.tied) for e in found.values()] == [(False, False), (False, False), (True, False), (False, True)]
    assert "Bold: best of its column, teachers and other references aside." in render(made, "markdown")


def test_rows_that_fix_their_initialisation_stand_in_the_studys_order_and_say_which_it_is():
    fixed = replace(HID, init="pretrained")
    study = replace(STUDY, rows=(VANILLA, fixed, ATT), profiles={"quick": Profile("t", ("sst2",), ("every",), 1, 2)})
    cells = [cell(VANILLA, "sst2", (60, 60)), cell(fixed, "sst2", (70, 70), "pretrained"), cell(ATT, "sst2", (65, 65))]
    (block,) = table(cells, study).blocks
    assert [line.row.name for line in block.lines] == ["vanilla_kd", "hid_seq", "att_kl"]
    text = render(table(cells, study), "markdown")
    assert "*transformer, init every*" in text and "| Hid-Seq (init pretrained) " in text
    several = table([*cells, cell(ATT, "sst2", (60, 60), "random")], study)
    assert [block.init for block in several.blocks] == ["", "every", "random"]  # of which it would be none's


def test_factors_are_multiples_of_a_rows_quantity_as_far_as_both_are_measured():
    shown = ("millions_without_embeddings", "size_factor", "time_factor")
    large, small = replace(VANILLA, mark=""), HID

    def measured(row, millions, ratio, **changes):
        runs = [RunResult(f"{row.name}{s}", s, {}, {shown[0]: millions, "speed_ratio": r}, 0.0, {}) for s, r in ratio]
        return cell(row, "sst2", (), seeds=tuple(runs), trials=tuple(runs[:1]), **changes)

    study = replace(STUDY, rows=(large, small), procedure="speed", metrics={"sst2": shown}, relative_to="hid_seq")
    cells = [measured(large, 309.0, [(0, 1.0), (1, 1.0)]), measured(small, 4.8, [(0, 50.0), (1, 60.0)])]
    made = entries(table(cells, study, protocol=""))
    assert [entry_text(e, m) for e, m in zip(made["vanilla_kd"], shown, strict=True)] == [
        "309 M",
        "64.4×",
        "55.0× ± 7.1",
    ]
    assert [e.value for e in made["hid_seq"]] == [4.8, 1.0, 1.0]
    waiting = entries(table([cells[0], cell(small, "sst2", ())], study, protocol=""))
    assert [entry_text(e, m) for e, m in zip(waiting["vanilla_kd"], shown, strict=True)] == ["309 M", "0/2", "0/2"]
    alone = entries(table(cells[:1], study, protocol=""))
    assert [e.status for e in alone["vanilla_kd"]] == ["complete", "absent", "absent"]
    with pytest.raises(UserError, match="unknown row in relative_to of toy 'hid': did you mean hid_seq"):
        table(cells, replace(study, relative_to="hid"), protocol="")


def test_ties_need_predictions_of_the_same_examples_that_give_the_recorded_value():
    best, tied = cell(ATT, "sst2", (86, 86)), cell(HID, "sst2", (84, 86))
    assert entries(table([best, tied]))["hid_seq"][0].tied
    without = {"predictions": None}
    wrong = {"predictions": run(50).record["predictions"]}
    for record in (without, {"predictions": lambda: None}, wrong):
        made = table([best, replace(tied, seeds=(run(84, 0, **record), run(86, 1, **record)))])
        assert not entries(made)["hid_seq"][0].tied and made.untested == ("SST-2",)


def test_where_nothing_was_tested_nothing_is_promised_of_the_bold():
    record = {"predictions": lambda: None}
    seeds = [(row, (run(score, 0, **record), run(score, 1, **record))) for row, score in ((ATT, 86), (HID, 84))]
    text = render(table([cell(row, "sst2", (), seeds=found, trials=found) for row, found in seeds]), "markdown")
    assert "**86.0" in text and "so that bold is the highest number and no more: SST-2" in text
    assert "truly best" not in text


def test_one_seed_prints_no_spread_and_unequal_seeds_print_their_own_n():
    single = {"wanted_seeds": 1}
    assert "| **80.0** |" in " ".join(render(table([cell(ATT, "sst2", (80,), **single)]), "markdown").split())
    made = render(table([cell(ATT, "sst2", (80,), **single), cell(VAL, "sst2", (60, 62))]), "markdown")
    assert "80.0 (n=1)" in made and "61.0 ± 1.4 (n=2)" in made and "n in each cell" in made


def test_rows_of_a_plugin_follow_the_study_by_name_and_the_teacher_leads():
    extra = [Row(name, name, name) for name in ("zebra", "ape")]
    made = table([cell(r, "sst2", (60, 60)) for r in (*extra, ATT, VANILLA)])
    assert list(entries(made)) == ["vanilla_kd", "att_kl", "ape", "zebra"]
    assert [c.label for c in made.columns] == ["SST-2"], "one task has no average"
    first = [line for line in render(made, "markdown").splitlines() if line.startswith("| ")][2]
    assert first.startswith("| Teacher: embedded")


@pytest.mark.parametrize(("refused", "waited"), [("", "0/1"), ("no labels", "")])
def test_an_unfinished_teacher_has_no_average_and_is_waited_for_where_a_cell_can_be(refused, waited):
    cells = [cell(ATT, "sst2", (60, 60)), cell(ATT, "rte", () if refused else (60, 60), refused=refused)]
    made = table(cells, teacher_scores={"sst2": [{"accuracy": 0.9}]})
    assert [entry_text(e) for e in made.teacher] == ["90.0", waited, ""]


@pytest.mark.parametrize("progress", ["1/3", "failed"])
def test_an_unfinished_teacher_says_how_far_its_seeds_are(progress):
    made = table([cell(ATT, "sst2", ())], teacher_scores={}, teachers=3, teacher_progress={"sst2": progress})
    assert entry_text(made.teacher[0]) == progress


def test_a_teacher_of_several_seeds_has_a_spread_and_the_caption_says_whether_rows_have_it():
    cells = [cell(ATT, "sst2", (60, 70)), cell(ATT, "rte", (60, 70))]
    scores = {"sst2": [{"accuracy": 0.9}, {"accuracy": 0.8}], "rte": [{"accuracy": 0.7}, {"accuracy": 0.8}]}
    made = table(cells, teacher_scores=scores, teachers=2)
    assert [entry_text(e) for e in made.teacher] == ["85.0 ± 7.1", "75.0 ± 7.1", "80.0 ± 0.0"]
    caption = "mean ± sample standard deviation over n = 2 seeds"
    for teachers, said in ((2, f"{caption}, each with its own teacher."), (1, f"{caption}, one teacher.")):
        assert said in render(table(cells, teacher_scores=scores, teachers=teachers), "markdown")
    assert f"{caption}." in render(table(cells), "markdown")
    unequal = table(cells, teacher_scores={**scores, "rte": [{"accuracy": 0.7}]})
    assert [entry_text(e) for e in unequal.teacher] == ["85.0 ± 7.1", "70.0", ""]


def with_metrics(one, **metrics):
    """The cell with these metrics beside those of its runs."""
    return replace(one, seeds=tuple(replace(r, metrics={**r.metrics, **metrics}) for r in one.seeds))


def test_a_task_may_show_several_metrics_and_the_average_takes_the_first():
    study = replace(STUDY, metrics={"sst2": ("accuracy", "f1"), "rte": "f1"})
    cells = [cell(ATT, "sst2", (80, 80)), cell(ATT, "rte", (70, 70))]
    scores = {"sst2": [{"accuracy": 0.9, "f1": 0.8}], "rte": [{"f1": 0.6}]}
    made = table([with_metrics(c, f1=0.5) for c in cells], study, teacher_scores=scores)
    assert [(c.name, c.metric) for c in made.columns] == [
        ("SST-2 accuracy", "accuracy"),
        ("SST-2 f1", "f1"),
        ("RTE", "f1"),
        ("Average", ""),
    ]
    assert [e.value for e in entries(made)["att_kl"]] == pytest.approx([0.8, 0.5, 0.5, (0.8 + 0.5) / 2])
    assert [e.value for e in made.teacher] == pytest.approx([0.9, 0.8, 0.6, (0.9 + 0.6) / 2])


def test_a_metric_of_another_dev_split_is_not_tested_on_the_predictions_of_the_first():
    study = replace(STUDY, metrics={"sst2": ("accuracy", "mismatched_accuracy")})
    cells = [cell(ATT, "sst2", (86, 86)), cell(HID, "sst2", (84, 86))]
    made = table([with_metrics(c, mismatched_accuracy=0.1 * i) for i, c in enumerate(cells)], study)
    assert entries(made)["hid_seq"][0].tied and entries(made)["hid_seq"][1].best
    assert made.untested == ("SST-2 mismatched accuracy",)


def test_a_metric_that_a_run_did_not_record_is_told():
    study = replace(STUDY, metrics={"sst2": ("accuracy", "f1")})
    made = table([cell(ATT, "sst2", (80, 80)), with_metrics(cell(VAL, "sst2", (80, 80)), f1=0.5)], study)
    entry = entries(made)["att_kl"][1]
    assert (entry.status, entry_text(entry), entry.note) == ("unrecorded", "–", 1)
    assert made.reasons == ("no f1 is recorded by its runs",) and entries(made)["att_kl+val_kl"][1].best


@pytest.mark.parametrize(("runs", "told"), [((80, 80), "no run has recorded what the columns show"),
                                            ((80,), "no cell is finished yet")])  # fmt: skip
def test_a_table_of_metrics_that_no_run_recorded_says_so(runs, told):
    made = table([cell(ATT, "sst2", runs)], replace(STUDY, metrics={"sst2": "f1"}))
    assert made.reasons == ("no f1 is recorded by its runs",) and told in render(made, "markdown")
    assert ("is finished" in render(made, "markdown")) == (len(runs) < 2)


@pytest.mark.parametrize("format", [f for f in FORMATS if f not in ("csv", "json")])
def test_what_a_gpu_does_not_repeat_is_told(format):
    def made(right, **more):
        runs = tuple(run(k, seed, device="cuda", **more) for seed, k in enumerate(right))
        return cell(ATT, "sst2", (), seeds=runs, trials=runs[:1])

    one = made((80, 81))
    other = replace(made((70, 71), unrepeatable="put_"), cell="other", row=VAL)
    sure, doubtful = ("".join(render(table(cells), format).split()) for cells in ([one], [one, other]))
    assert "twicethesame" not in sure and "2runsusewhataGPUdoesnotcomputetwicethesame" in doubtful


def test_tasks_that_share_a_label_are_told_apart_and_find_what_is_printed():
    tasks = {**TASKS, "mine": replace(TASKS["sst2"], name="mine")}
    cells = [cell(ATT, "sst2", (80, 81)), cell(ATT, "rte", (60, 61)), cell(ATT, "mine", (70, 71))]
    made = build(STUDY, "quick", cells, tasks, PROVENANCE, score)
    assert [column.label for column in made.columns] == ["SST-2 (sst2)", "RTE", "SST-2 (mine)", "Average"]
    comparison = with_published(made, STUDY).comparison
    (pairs,) = (line.pairs for block in comparison.blocks for line in block.lines if line.line)
    assert pairs[0].printed == pairs[2].printed != pairs[1].printed


def test_rows_that_fix_their_axes_stand_together_and_the_others_by_what_they_leave_free():
    both = [replace(ROWS[i], student=s, init="random") for i, s in ((3, "cmow"), (0, "cbow"))]
    student = replace(HID, student="cbow")
    init = replace(ATT, init="pretrained")
    study = replace(STUDY, rows=(*both, student, init), students=("hybrid",))
    cells = [
        *(cell(r, "sst2", (60, 60), "random", student=r.student) for r in both),
        *(cell(student, "sst2", (60, 60), i, student="cbow") for i in ("every", "random")),
        cell(init, "sst2", (60, 60), "pretrained:5e", student="hybrid"),
    ]
    made = table(list(reversed(cells)), study)
    assert [(b.student, b.init, [line.row.name for line in b.lines]) for b in made.blocks] == [
        ("", "", ["att_kl+val_kl", "vanilla_kd"]),
        ("", "every", ["hid_seq"]),
        ("", "random", ["hid_seq"]),
        ("hybrid", "", ["att_kl"]),
    ]
    assert [heading(b.student, b.init) for b in made.blocks] == ["", "init every", "init random", "hybrid"]
    assert {(line.student, line.init) for b in made.blocks for line in b.lines} == {
        ("cmow", "random"),
        ("cbow", "random"),
        ("cbow", "every"),
        ("hybrid", "pretrained"),
    }


def test_a_checkpoint_is_its_own_student():
    row = CheckpointRow("att_kl", "Att-KL", "distilbert-base-uncased")
    (block,) = table([cell(row, "sst2", (60, 60))], replace(STUDY, rows=(row,))).blocks
    assert (block.student, block.init, block.lines[0].student) == ("", "", "distilbert-base-uncased")


def test_teachers_stand_with_the_rows_that_fix_both_axes_in_the_order_of_the_study():
    rows = (
        TeacherRow("teacher_20", "Vanilla KD", mark=VANILLA.mark),
        replace(HID, student="bilstm", init="random"),
        TeacherRow("teacher_100", "Vanilla KD", mark=VANILLA.mark),
    )
    cells = [
        *(cell(r, "sst2", (60, 60), "", student="") for r in (rows[2], rows[0])),
        cell(rows[1], "sst2", (60, 60), "random", student="bilstm"),
        cell(ATT, "sst2", (60, 60)),
    ]
    made = table(cells, replace(STUDY, rows=(*rows, ATT)))
    assert [(heading(b.student, b.init), [line.row.name for line in b.lines]) for b in made.blocks] == [
        ("", ["teacher_20", "hid_seq", "teacher_100"]),
        ("transformer, init every", ["att_kl"]),
    ]
    assert [line.entries[0].best for line in made.blocks[0].lines] == [False, True, False]


def test_a_loss_neither_competes_nor_is_multiplied():
    study = replace(STUDY, metrics={"sst2": ("accuracy", "distillation_loss")})
    text = render(table([with_metrics(cell(ATT, "sst2", (80, 80)), distillation_loss=0.0288)], study), "markdown")
    assert "| **80.0 ± 0.0** | 0.0288 ± 0.0000 |" in " ".join(text.split())


@pytest.mark.parametrize("format", [f for f in FORMATS if f != "terminal"])
def test_the_order_of_the_cells_changes_no_byte(format):
    cells = mixed()
    expected = render(with_published(table(cells), STUDY), format)
    random.Random(0).shuffle(cells)
    assert render(with_published(table(cells), STUDY), format) == expected


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_any_cell_is_written_and_says_so(format):
    text = render(with_published(table([]), STUDY), format)
    assert format == "csv" or ("toy" in text and ("no cell is finished yet" in text or format == "json"))


def test_two_cells_in_one_place_are_refused():
    with pytest.raises(ValueError, match="share student"):
        table([cell(ATT, "sst2", (60, 60)), cell(ATT, "sst2", (61, 61))])


def test_importing_reports_loads_no_heavy_library():
    code = "import reports, sys; print({'torch', 'numpy', 'pandas', 'scipy', 'matplotlib', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_unfinished_cells_are_counted_where_they_stand():
    """Rows that come to the same runs share one."""
    one = cell(ROWS[0], "sst2", (60,))
    text = render(table([one, replace(one, row=ROWS[1])]), "markdown")
    assert "Unfinished cells, shown with their progress: 2." in text
