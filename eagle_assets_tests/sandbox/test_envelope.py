"""Bodies as OpenRouter writes them: the tolerant reader gets back what the provider served."""

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.wire import read_response
from eagle_assets.sandbox.answering import answer_of
from eagle_assets.sandbox.envelope import COMMENT, KEEP_ALIVE, event_stream, ids_of_frames, json_body
from eagle_assets.sandbox.providers import all_providers
from eagle_assets_tests.sandbox.packaged import packaged_requests

PROVIDERS = {provider.slug: provider for provider in all_providers()}


def answered(request, slug):
    return answer_of(request, PROVIDERS[slug], generation_id="gen-1", created=1_700_000_000)


def read(answer, request, body):
    return read_response(Exchange("gen-1", answer.model, answer.provider.name, 200, request, body))


@pytest.mark.parametrize("slug", sorted(PROVIDERS))
@pytest.mark.parametrize("streamed", [False, True])
def test_what_was_served_is_what_is_read(slug, streamed):
    for request in packaged_requests("B6", "B8", streamed=streamed):
        answer = answered(request, slug)
        body = COMMENT + b"".join(event_stream(answer)) if streamed else KEEP_ALIVE * 2 + json_body(answer)
        response = read(answer, request, body)
        message = answer.served.message
        assert response.complete
        assert response.error is None
        assert response.streamed == streamed
        assert (response.reasoning or "", response.content or "") == (message.reasoning or "", message.content or "")
        assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [
            (c.id, c.name, c.arguments) for c in message.tool_calls
        ]
        assert response.finish_reason == answer.served.finish_reason
        assert response.provider == answer.provider.name
        assert response.model == "moonshotai/kimi-k2.5-0127"
        assert response.prompt_tokens == answer.prompt_tokens
        assert response.completion_tokens == answer.served.completion_tokens
        assert response.cost_usd == pytest.approx(
            answer.prompt_tokens * float(answer.provider.prompt_price)
            + answer.served.completion_tokens * float(answer.provider.completion_price)
        )


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_that_gives_ids_gives_all_of_them(streamed):
    for request in packaged_requests("B6", "B8", streamed=streamed):
        answer = answered(request, "meridian")
        body = b"".join(event_stream(answer)) if streamed else json_body(answer)
        response = read(answer, request, body)
        assert response.token_ids == answer.output_ids
        assert response.prompt_token_ids == answer.prompt_ids


def test_ids_of_a_frame_spell_its_text():
    """But for the part of a character that a token may bring before the frame that shows it."""
    for request in packaged_requests("B5", "B6", "B8"):
        answer = answered(request, "meridian")
        frames = answer.served.frames
        vocabulary = answer.target.vocabulary
        shown, spelt = b"", b""
        for frame, ids in zip(frames, ids_of_frames(answer.target, answer.output_ids, frames), strict=False):
            shown += ((frame.id or "") + frame.text).encode()
            spelt += vocabulary.decode([i for i in ids if i not in vocabulary.special_text])
            if "\ufffd" not in frame.text:
                assert spelt.startswith(shown)
                assert len(spelt) - len(shown) < 4


def test_where_think_is_generated_it_is_no_part_of_the_prompt():
    request = packaged_requests("B3")[0]
    here, elsewhere = answered(request, "tundra"), answered(request, "lakeside")
    think = here.target.markers.think_begin
    assert here.output_ids == (think, *elsewhere.output_ids)
    assert (*here.prompt_ids, think) == elsewhere.prompt_ids
    assert here.served.completion_tokens == len(here.output_ids)
