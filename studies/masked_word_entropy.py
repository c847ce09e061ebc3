"""Figure 3.4 of liu2020: how unsure teacher, distilled and plain BiLSTM become when a word of a sentence is masked.

The published figure shows two sentences, chosen by hand, and prints no numbers.
"""

from harness.contracts import Row, Study, TeacherRow, Told
from harness.registry import study
from harness.studies.lstm_settings import AUGMENTED, ON_AUGMENTED, ONE_RUN
from harness.studies.profiles import varied
from harness.studies.told import LIU_BILSTM

study(
    Study(
        name="masked_word_entropy",
        title="Entropy with a masked word",
        question="Does a model know that a sentence without its decisive word says little?",
        procedure="one_stage",
        rows=(
            TeacherRow("teacher", "Teacher"),
            Row("distilled", "logit_mse", "Distilled BiLSTM", mark=ON_AUGMENTED, settings=AUGMENTED),
            Row("plain", "labels_only", "BiLSTM"),
        ),
        students=("bilstm",),
        analysis="masked_word_entropy",
        told={**LIU_BILSTM, "tasks": Told("sst2", "Figure 3.4")},
        profiles=varied(ONE_RUN, {"quick": ("sentiment",), "small": ("sst2",), "paper": ("sst2",)}),
    )
)
