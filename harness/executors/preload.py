"""What the fork server imports once, so that no worker has to: importing it is its effect."""

import scipy.stats  # noqa: F401
import sklearn.metrics  # noqa: F401
import transformers

import harness.training.jobs  # noqa: F401
from harness.registry import ALL
from harness.training import code_versions

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
for registry in ALL.values():
    registry.names()
code_versions.engine()  # every record tells it
