"""temporary"""
from __future__ import annotations
import hashlib
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from harness.contracts import Task
from harness.errors import UserError
from harness.data import embedded

@dataclass(frozen=True)
class Split:
    name: str
    text_a: list[str]
    text_b: list[str] | None
    labels: np.ndarray

@dataclass(frozen=True)
class TaskData:
    task: Task
    train: Split
    dev: tuple[Split, ...]
    content: str

def _split(name, rows):
    pair = rows[0][1] is not None
    return Split(name, [r[0] for r in rows], [r[1] for r in rows] if pair else None, np.array([r[2] for r in rows]))

def load(task, source):
    if source == "embedded":
        tr, dv = embedded.generate(task.name)
    else:
        f = Path(source)/task.folder
        def rd(p):
            rows=[l.rstrip("\n").split("\t") for l in open(f/p, encoding="utf-8-sig")][1:]
            if task.name=="sst2": return [(r[0],None,int(r[1])) for r in rows]
            if task.name=="mrpc": return [(r[3],r[4],int(r[0])) for r in rows]
        tr, dv = rd("train.tsv"), rd("dev.tsv")
    dt = np.int64 if task.classification else np.float32
    s=[_split("train",tr),_split("dev",dv)]
    s=[Split(x.name,x.text_a,x.text_b,x.labels.astype(dt)) for x in s]
    return TaskData(task,s[0],(s[1],),content(task,source))

def content(task, source):
    if source=="embedded":
        return hashlib.sha256(repr(embedded.generate(task.name)).encode()).hexdigest()
    f = Path(source)/task.folder
    return hashlib.sha256(b"".join((f/p).read_bytes() for p in ("train.tsv","dev.tsv"))).hexdigest()
