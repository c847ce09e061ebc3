"""What is set in the environment of every process that trains, before it loads torch."""

import os

SETTINGS = {
    "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads of one process starve the other
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # oneDNN keeps a copy of a bfloat16 weight for every shape of batch that it met: by default of 1,024 shapes.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
}


def prepare() -> None:
    """Set what is not set already."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
