"""What bounds the states of a step, in words."""

from dataclasses import dataclass

from headrace.contract.counts import counted


@dataclass(frozen=True)
class Bound:
    """What bounds the states of a step.

    Attributes:
        keeps: The states of the step, and until when it keeps them.
        remedy: How to bound states that the step itself never ends; empty if it ends all of them.
    """

    keeps: str
    remedy: str = ""

    def in_words(self, max_keys: int | None) -> str:
        """The bound, which begins with "none" if there is none.

        Args:
            max_keys: For how many keys the step may have states in each bucket; None for no limit.
        """
        if max_keys is None:
            return f"none: {self.keeps}: {self.remedy}" if self.remedy else self.keeps
        return f"{self.keeps}; at most {counted(max_keys, 'key')} in each bucket (max_keys)"
