"""The closed list of what servers count otherwise than the ids that were generated."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Counting:
    """How `completion_tokens` relates to the generated ids.

    `section_end_open`: the count lacks the token that closes a tool section, which was not counted or never generated:
    text and counts cannot tell. The target model can: `section_end_generated` is what it said, None where it was not
    asked. `think_end_counted`: whether `</think>` is.
    """

    name: str
    think_generated: bool = False
    stop_counted: bool = True
    section_end_open: bool = False
    section_end_generated: bool | None = None
    think_end_counted: bool = True

    @property
    def is_open(self) -> bool:
        """Whether it may be two: the end of a section not counted, or not generated."""
        return self.section_end_open and self.section_end_generated is None

    def ways_to_settle(self) -> tuple[Counting, ...]:
        """Itself where nothing is open, else the two that it may be."""
        if not self.is_open:
            return (self,)
        return self._settled("not counted", True), self._settled("not generated", False)

    def _settled(self, name: str, generated: bool) -> Counting:
        settled = self.name.replace("not counted or not generated", name)
        return replace(self, name=settled, section_end_generated=generated)

    def offset(self, thinking: bool, has_calls: bool) -> int:
        """Count minus the canonical length of the shown texts with their markers, for a whole output."""
        think = self.think_generated and thinking
        uncounted = (not self.stop_counted) + (not self.think_end_counted and thinking)
        return think - uncounted - (self.section_end_open and has_calls)


EVERYTHING_COUNTED = Counting("all counted")
COUNTINGS = (
    EVERYTHING_COUNTED,
    Counting("stop token not counted", stop_counted=False),
    Counting("</think> not counted", think_end_counted=False),
    Counting("markers not counted", stop_counted=False, think_end_counted=False),
    Counting("<think> generated", think_generated=True),
    Counting("section end not counted or not generated", section_end_open=True),
    Counting(
        "<think> generated, section end not counted or not generated", think_generated=True, section_end_open=True
    ),
)
