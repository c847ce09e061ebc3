"""Transfer of states and embeddings beside that of hidden.py: patient, by cosine, of the embedding layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.modeling.bases import Objective
from harness.objectives.hidden import blind_first_token
from harness.registry import objective


def aligned(student: int, teacher: int) -> nn.Module:
    """States are compared as they are; those of another width through a learned map, orthogonal at first."""
    if student == teacher:
        return nn.Identity()
    made = nn.Linear(student, teacher, bias=False)
    nn.init.orthogonal_(made.weight)
    return made


@objective("pkd", needs={Signal.HIDDEN_STATES})
class PatientKD(Objective):
    r"""|h_S / |h_S| - h_T / |h_T||^2 of the first token, mean over the batch, summed over mapped layers but the last.

    $$
    \sum_{(l, m)} \frac{1}{B} \sum_{b} \left\| \frac{h^S_{l b 1}}{\|h^S_{l b 1}\|} - \frac{h^T_{m b 1}}{\|h^T_{m b 1}\|}
    \right\|^2
    $$

    (l, m): the mapped layers; 1 the first token. States of another width go through a learned map first.

    Sun et al. (2019), Patient Knowledge Distillation, Eq. 7, there a sum over examples; their code takes the mean over
    layers and width as well, so that its weights, 10 to 1000, are to be divided here by both. The student's last layer
    is left out, as there, for the logits teach it; where no other is mapped, it is what learns. The published loss is
    vanilla_kd+W*pkd in one stage.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, layers)
        self.pairs = self._patient(student, layers).pairs
        self.alignments = nn.ModuleList(aligned(student.width, teacher.width) for _ in self.pairs)

    @staticmethod
    def _patient(student: ModelInfo, layers: LayerMap) -> LayerMap:
        before = tuple(pair for pair in layers.pairs if pair[0] < student.layers)
        return LayerMap(before) if before else layers

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        return blind_first_token(cls.name, student, task)

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return super().wants(student, teacher, cls._patient(student, layers))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        losses = []
        for align, (ours, theirs) in zip(self.alignments, self.pairs, strict=True):
            state = F.normalize(align(student.hidden_states[ours][:, 0]), dim=-1)  # (B, D)
            target = F.normalize(teacher.hidden_states[theirs][:, 0].detach(), dim=-1)
            losses.append((state - target).square().sum(-1).mean())
        return torch.stack(losses).sum()


@objective("hid_cosine", needs={Signal.HIDDEN_STATES}, token_level=True)
class HiddenCosine(Objective):
    r"""1 - cos(h_S, h_T) of each real token, mean over tokens, summed over the mapped layers.

    $$ \sum_{(l, m)} \frac{1}{n} \sum_{i} \left(1 - \cos(h^S_{l i}, h^T_{m i})\right) $$

    (l, m): the mapped layers; n real tokens. States of another width go through a learned map first.

    Sanh et al. (2019), DistilBERT, section 2, where the last layer alone learns so (on a corpus the setting
    general.transferred_layers=last), beside what mlm_kd has of theirs.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, layers)
        self.pairs = layers.pairs
        self.alignments = nn.ModuleList(aligned(student.width, teacher.width) for _ in self.pairs)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        # (B, L, D) -> (real tokens, D)
        cosines = []
        for align, (ours, theirs) in zip(self.alignments, self.pairs, strict=True):
            target = batch.real(teacher.hidden_states[theirs]).detach()
            cosines.append(F.cosine_similarity(align(batch.real(student.hidden_states[ours])), target, dim=-1))
        return torch.stack([(1 - cosine).mean() for cosine in cosines]).sum()


@objective("embedding_mse", needs={Signal.EMBEDDINGS}, token_level=True)
class EmbeddingMSE(Objective):
    r"""MSE(E_S W_e, E_T) of what the first layers read, mean over real tokens and width.

    $$ \frac{1}{n d'} \sum_{i} \left\| e^S_i W_e - e^T_i \right\|^2 $$

    Jiao et al. (2020), TinyBERT, Eq. 9. W_e is learned: the identity at first where the widths agree, otherwise
    orthogonal. Their sum over the layers, Eq. 6, is embedding_mse+hid_seq+att_mse.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, layers)
        width = student.embedding_width or student.width
        self.transformation = nn.Linear(width, teacher.width, bias=False)
        (nn.init.eye_ if width == teacher.width else nn.init.orthogonal_)(self.transformation.weight)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return F.mse_loss(self.transformation(batch.real(student.embeddings)), batch.real(teacher.embeddings).detach())
