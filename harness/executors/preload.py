"""What the fork server imports once, so that no run has to: importing it is its effect.

It also works out what is the same for every run: fingerprints of the code that it has just imported, its commit,
versions, transformers' table of renamed weights, and what else transformers finds out as it builds its first model,
which here has no weights. It computes nothing with torch, and no code of a --plugin comes here.
"""

import gc
import pkgutil
import signal
from importlib import import_module

STOPS = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to all at once, and whoever began this ends it
COLLECTS = gc.isenabled()
gc.disable()  # what is imported stays: passing over it again and again would be a sixth of the time that this takes

import scipy.stats  # noqa: F401
import sklearn.metrics
import torch
import transformers
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from harness import code_versions, jobs
from harness.executors import environment, made_on
from harness.registry import ALL, OBJECTIVES, PROCEDURES, STUDENTS, TEACHERS
from harness.training import machine

environment.own_path()
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
for module in pkgutil.iter_modules(jobs.__path__, f"{jobs.__name__}."):  # a run finds its own by name
    import_module(module.name)
for registry in ALL.values():
    registry.names()
code_versions.engine()  # every record tells it
for plugins in (STUDENTS, TEACHERS, OBJECTIVES, PROCEDURES):
    for name in plugins.names():
        code_versions.fingerprint(plugins.origin(name))
code_versions.of_stored(TEACHERS.names()[0])  # with versions of libraries
machine.versions()
machine.keep_freed_memory()
made_on.commit()
sklearn.metrics.matthews_corrcoef([0, 1], [0, 1])  # what scikit-learn looks up once
get_checkpoint_conversion_mapping("bert")
with torch.device("meta"):
    transformers.BertForSequenceClassification(transformers.BertConfig(num_hidden_layers=1))
gc.freeze()  # a collection in a fork would otherwise touch, and so copy, every page of what is imported
if COLLECTS:
    gc.enable()  # not before, or it would search all of this at once
signal.signal(signal.SIGINT, STOPS)  # as runs have it, see `multiprocessing.forkserver`
