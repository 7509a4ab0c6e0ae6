"""What an output may have been instead: each kind of change, at its place, and nothing else."""

from __future__ import annotations

import pytest

from eagle_assets.judge.variants import (
    Variant,
    cut_otherwise,
    encoded_otherwise,
    ends,
    leading_blanks,
    narrowed,
    spans,
    tool_indexes,
)
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
encode, markers = TARGET.vocabulary.encode, TARGET.markers


def output(reasoning: str, content: str, *calls: tuple[str, str]) -> list[int]:
    ids = [*encode(reasoning), markers.think_end, *encode(content)]
    for number, (header, arguments) in enumerate(calls):
        ids += [markers.section_begin] if number == 0 else []
        ids += [markers.call_begin, *encode(header), markers.argument_begin, *encode(arguments), markers.call_end]
    return [*ids, *([markers.section_end] if calls else []), markers.stop]


def results(variants: object, ids: list[int]) -> list[list[int]]:
    return [variant.applied_to(ids) for variant in variants]  # type: ignore[attr-defined]


def test_texts_stand_between_markers() -> None:
    ids = output("Hm.", "", ("functions.look:0", "{}"))
    assert [(span.start, span.end, span.after) for span in spans(ids, TARGET.vocabulary)] == [
        (0, 2, None),
        (3, 3, markers.think_end),
        (4, 4, markers.section_begin),
        (5, 9, markers.call_begin),
        (10, 11, markers.argument_begin),
        (12, 12, markers.call_end),
        (13, 13, markers.section_end),
        (14, 14, markers.stop),
    ]


def test_a_leading_blank_comes_and_goes() -> None:
    ids = output("Let me see.", " It is 7.", ("functions.look:0", '{"a": 1}'))
    assert results(leading_blanks(ids, TARGET), ids) == [
        output(" Let me see.", " It is 7.", ("functions.look:0", '{"a": 1}')),
        output("Let me see.", "It is 7.", ("functions.look:0", '{"a": 1}')),
        output("Let me see.", " It is 7.", ("functions.look:0", ' {"a": 1}')),
    ]


def test_white_space_at_an_end_comes_and_goes() -> None:
    ids = output("Let me see.\n", "It is 7.")
    found = results(ends(ids, TARGET), ids)
    assert output("Let me see.", "It is 7.") in found
    assert output("Let me see.\n\n", "It is 7.") in found
    assert output("Let me see.\n", "It is 7.\n") in found
    assert ids not in found


def test_calls_are_numbered_otherwise() -> None:
    ids = output("Hm.", "", ("functions.look:3", "{}"))
    assert results(tool_indexes(ids, TARGET), ids) == [
        output("Hm.", "", (f"functions.look:{number}", "{}")) for number in (2, 4, 0)
    ]
    assert results(tool_indexes(output("Hm.", "", ("look", "{}")), TARGET), ids) == []


def test_the_encoders_own_ids_are_proposed_where_they_are_others() -> None:
    ids = output("Let me see.", "It is 7.")
    assert list(encoded_otherwise(ids, TARGET)) == []
    cut = next(iter(cut_otherwise(ids, [1], TARGET.vocabulary)))
    assert cut.kind == "segmentation"
    assert TARGET.vocabulary.decode(cut.applied_to(ids)) == TARGET.vocabulary.decode(ids)
    (back,) = encoded_otherwise(cut.applied_to(ids), TARGET)
    assert back.applied_to(cut.applied_to(ids)) == ids


def test_a_full_stop_and_a_line_break_are_put_together_and_taken_apart() -> None:
    together, apart = encode("It is 7.\nYes"), [*encode("It is 7."), *encode("\nYes")]
    assert together != apart
    places = range(len(apart) - 1)
    found = [v for v in cut_otherwise(apart, places, TARGET.vocabulary) if v.applied_to(apart) == together]
    assert [v.kind for v in found] == ["line break"]
    assert apart in results(cut_otherwise(together, range(len(together) - 1), TARGET.vocabulary), together)


def test_a_text_off_the_canonical_path_keeps_its_own_tokens() -> None:
    ids = output("Let me see.", "It is 7.")
    cut = next(v for v in cut_otherwise(ids, [2], TARGET.vocabulary) if len(v.instead) == 2)
    off = cut.applied_to(ids)
    with_blank = next(v for v in leading_blanks(off, TARGET) if v.start == 0).applied_to(off)
    assert TARGET.vocabulary.decode(with_blank) == b" " + TARGET.vocabulary.decode(off)
    assert with_blank[1:] == off[1:]


@pytest.mark.parametrize(
    ("present", "instead", "change"),
    [
        ([1, 2, 3], [1, 9, 3], (1, 2, [9])),
        ([1, 2, 3], [1, 3], (1, 2, [])),
        ([1, 1], [1, 1, 1], (2, 2, [1])),
        ([], [4], (0, 0, [4])),
        ([1, 2], [1, 2], (2, 2, [])),
    ],
)
def test_a_change_is_narrowed_to_what_differs(
    present: list[int], instead: list[int], change: tuple[int, int, list[int]]
) -> None:
    assert narrowed(present, instead) == change
    start, end, new = change
    assert Variant("segmentation", start, end, tuple(new)).applied_to(present) == instead
