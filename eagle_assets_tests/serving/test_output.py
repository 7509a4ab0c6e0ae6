"""The output grammar: reading ids and writing them again lose nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.serving.output import Call, Ids, NotInGrammar, Output, join_output, parse_output
from eagle_assets.serving.served import Situation
from eagle_assets_tests.serving.outputs import (
    INSTANT,
    K2_5,
    MARKERS,
    NEVER,
    THINKING,
    VOCABULARY,
    ordinary,
    outputs,
)

situations = st.sampled_from([THINKING, INSTANT, NEVER])


@given(data=st.data(), situation=situations, segments=st.sampled_from([ordinary, st.just(())]))
def test_an_output_comes_back_from_its_ids(
    data: st.DataObject, situation: Situation, segments: st.SearchStrategy[Ids]
) -> None:
    output = data.draw(outputs(situation, segments))
    ids = join_output(output, MARKERS)
    assert parse_output(ids, situation) == output
    assert len(ids) == output.count_of_markers() + sum(map(len, output.segments()))


@given(data=st.data(), begun=st.booleans())
def test_a_generated_think_marker_comes_back(data: st.DataObject, begun: bool) -> None:
    output = replace(data.draw(outputs(THINKING, ordinary)), think_begun=begun)
    assert parse_output(join_output(output, MARKERS), THINKING) == output


markers = st.sampled_from(list(vars(MARKERS).values()))


@given(
    st.lists(markers | st.integers(0, 200) | st.sampled_from(list(VOCABULARY.special_text)), max_size=12), situations
)
def test_ids_are_read_without_loss_or_refused(ids: list[int], situation: Situation) -> None:
    try:
        output = parse_output(ids, situation)
    except NotInGrammar:
        return
    assert join_output(output, MARKERS) == ids


@pytest.mark.parametrize(
    "ids",
    [
        [MARKERS.think_end, MARKERS.think_end],
        [MARKERS.stop, MARKERS.stop],
        [5, MARKERS.stop, 5],
        [MARKERS.think_end, 5, MARKERS.think_begin, MARKERS.stop],
        [MARKERS.think_end, MARKERS.call_begin, MARKERS.stop],
        [MARKERS.think_end, MARKERS.section_begin, 5, MARKERS.call_begin],
        [MARKERS.think_end, MARKERS.section_begin, MARKERS.section_end, 5, MARKERS.stop],
        [MARKERS.think_end, VOCABULARY.special_id("[EOS]"), MARKERS.stop],
    ],
)
def test_a_marker_where_none_can_stand_is_refused(ids: list[int]) -> None:
    with pytest.raises(NotInGrammar):
        parse_output(ids, THINKING)


def test_the_parts_of_a_whole_output() -> None:
    header, arguments = VOCABULARY.encode("functions.f:0"), VOCABULARY.encode('{"a": 1}')
    section = [MARKERS.section_begin, MARKERS.call_begin, *header, MARKERS.argument_begin, *arguments]
    ids = [7, 8, MARKERS.think_end, 9, *section, MARKERS.call_end, MARKERS.section_end, MARKERS.stop]
    assert parse_output(ids, Situation(K2_5, thinking=True)) == Output(
        think_begun=False,
        reasoning=(7, 8),
        reasoning_closed=True,
        content=(9,),
        section_begun=True,
        calls=(Call(tuple(header), tuple(arguments), True),),
        section_closed=True,
        stopped=True,
    )
