"""Why a run cannot go on."""


class TrainingFailure(Exception):
    """A run that cannot go on."""


class Diverged(TrainingFailure):
    """A loss that is not finite, told with its step and term: the same code would come to it again."""
