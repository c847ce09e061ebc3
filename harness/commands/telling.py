"""Lines to the terminal, where what comes from outside cannot move the cursor."""

import sys

from harness.errors import plain, sentence


def say(text: str) -> None:
    """Tell something beside the output."""
    print(f"harness: {sentence(text)}", file=sys.stderr)


def tell(text: str) -> None:
    """Print lines that may hold text from outside."""
    print("\n".join(map(plain, text.split("\n"))))
