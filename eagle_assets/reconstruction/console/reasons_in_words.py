"""The reason codes of verdicts as sentences."""

from __future__ import annotations

from eagle_assets.reconstruction.verdict import Verdict

# As short as tables want it; the README says it at length.
VERDICT_IN_WORDS: dict[Verdict, str] = {
    "exact": "the server's own evidence of every token proves the ids",
    "consistent": "one reading explains all that was seen, the token count too",
    "unverified": "a usable text, but evidence is missing, or a rival reading stands",
    "contradicted": "something that was seen disproves every reading",
    "unusable": "no whole output: an error, a cut connection, another model",
}

_IN_WORDS = {
    "count_closes": "the canonical ids of the texts are as many as the server counted",
    "one_token_steps": "the frames of the stream, a token each, spell these ids",
    "token_ids": "the server gave the ids",
    "logprobs": "the server gave the tokens' bytes or ids in its logprobs",
    "arrivals_missing": "when the bytes arrived was not recorded, so that nothing shows that the server sent them so",
    "token_ids_incomplete": "the ids that the server gave are not whole",
    "logprobs_incomplete": "some tokens of the logprobs cannot be told from their bytes",
    "token_ids_unproven": "ids that the provider gives are too often not those generated",
    "logprobs_unproven": "the provider's logprobs are too often not of the tokens that were generated",
    "given_ids_as_encoded": "an encoder would give the same ids for the text, so that they prove nothing by themselves",
    "given_ids_may_be_encoded": "ids that the provider gives are always an encoder's, and may be of its texts alone",
    "token_ids_without_stop": "the ids that the server gave lack the stop token",
    "token_ids_without_think_end": "the ids that the server gave end in mid-thought, or lack the end of the thinking",
    "logprobs_without_think_end": "the logprobs end in mid-thought, or lack the end of the thinking",
    "logprobs_without_stop": "the logprobs lack the stop token",
    "given_ids_differ_from_text": "the ids that the server gave say something else than its text",
    "given_ids_differ_from_count": "the ids that the server gave are not as many as it counted",
    "provider_uncalibrated": "the provider's responses do not settle how it serves and counts",
    "leading_blank_undecided": "it is open whether the blank at the start of a text is the model's or the server's",
    "section_end_undecided": "it is open whether the model wrote the token that closes the tool section",
    "rival_conventions": "several conventions stand that give other ids",
    "several_segmentations": "several ways to cut the texts into tokens fit everything that was seen",
    "white_space_may_be_lost": "white space that the model wrote may have been lost without a trace",
    "white_space_restored": "white space that the server took away was put back, as the server counted it",
    "white_space_undecided": "the server counted white space that it took away, and it is open what it was",
    "count_may_be_of_the_text": "the provider's counts always fit its texts, so that they may count these alone",
    "line_breaks_may_be_rewritten": "line breaks of the provider are of one kind, and may have been others",
    "argument_keys_may_be_sorted": "all arguments of the provider have sorted keys, which it may have sorted itself",
    "affix_may_be_added": "nearly all texts of the provider have the same character there, which may be its own",
    "tool_index_unproven": "the server numbers tool calls itself, so that the model's own numbers are not known",
    "residual_error_above_limit": "held back: with it the dataset's average error would be above `max_residual_error`",
    "no_count": "the server did not say how many tokens it generated",
    "count_mismatch": "the ids of the texts are not as many as the server counted (its count minus theirs)",
    "reasoning_tokens_differ": "the server's reasoning_tokens do not fit these ids, as they do in its other responses",
    "possible_trim": "white space lost at an end of a text would explain the difference",
    "no_convention_explains_the_text": "no known convention can have shown these texts",
    "frames_disagree": "frames of the stream end inside canonical tokens",
    "ids_between_walls": "the ids were made from the frames, each encoded by itself",
    "finish_length": "the token limit cut the output, so that it has no stop token",
    "finish_missing": "the server did not say why the output ended",
    "finish_reasons_differ": "the finish reason and the provider's own differ",
    "cut_at_marker": "supposed: the limit cut the output right after a marker",
    "think_position_unknown": "reasoning and content do not both show, so that the place of </think> is not known",
    "think_tag_in_content": "</think> stands as text in the content",
    "markers_in_content": "tool markers stand as text in the content",
    "markers_in_reasoning": "tool markers stand as text in the reasoning",
    "content_in_reasoning": "the answer came in the field of the reasoning, though the model was told not to think",
    "forced_tool_choice": "the request forced a call, so that the server may have written some of the output",
    "stop_string_possible": "the request names strings that end the output, one of which may stand where the end is",
    "tool_id_bare": "tool ids lack `functions.`, which the model writes",
    "tool_id_not_native": "tool ids are the server's own; the model's were put in their place",
    "tool_index_missing": "calls of the stream have no index",
    "args_missing": "a call has no arguments",
    "args_not_json": "arguments are no JSON",
    "args_doubled": "supposed: the arguments came twice",
    "args_escaped": "supposed: the model wrote arguments with escapes",
    "args_reserialised": "supposed: the server wrote the arguments anew",
    "replacement_char": "U+FFFD stands in a text, in the place of bytes that are not known",
    "half_surrogate": "half a surrogate pair stands in a text, which no tokenizer can make",
    "reasoning_fields_differ": "the fields of the reasoning say different things",
    "blanks_after_calls": "blanks that the stream brought after its calls were left out",
    "usage_missing": "the response has no usage",
    "usage_zero": "the usage says 0 tokens beside a text",
    "usage_inconsistent": "the usage counts more reasoning than output",
    "cost_missing": "the response does not say what it cost",
    "no_content": "there is neither text nor a count of it",
    "malformed_line": "the line holds no exchange",
    "no_ids": "the answer has no ids",
    "no_answer": "there is no answer",
    "aborted": "the server gave up before the answer was whole",
    "error": "the response is an error",
    "midstream_error": "an error came in the middle of the stream",
    "error_body": "the body is an error",
    "empty_body": "the body is empty",
    "truncated_transport": "the transport broke off",
    "transport_error": "the transport failed",
    "bad_frame": "a frame of the stream cannot be read",
    "bad_last_frame": "the last frame of the stream cannot be read",
    "not_json": "the body is no JSON",
    "not_a_completion": "the body is no completion",
    "choices_null": "`choices` is null",
    "choices_missing": "there are no `choices`",
    "unread_output": "the message says more than reasoning, content and tool calls, and what it was made of is unknown",
    "several_choices": "there are several choices",
    "no_http_status": "no HTTP status is known",
    "stray": "the answer is not from whom it was asked",
    "excluded_provider": "the request excluded the provider that answered",
    "model_mismatch": "another model answered",
    "unknown_target": "the model is no known target",
    "prompt_token_ids": "the server gave the prompt's ids",
    "given_prompt_ids_differ_from_count": "the prompt's ids that the server gave are not as many as it counted",
    "prompt_not_rendered": "the request has no rendering",
    "prompt_not_counted": "the server did not count the prompt",
    "prompt_count_closes": "the prompt as rendered is as long as the server counted",
    "prompt_count_differs": "the prompt as rendered is not as long as the server counted (its count minus ours)",
    "prompt_counts_too_few": "too few prompts of the provider were counted to tell how it renders them",
    "prompt_rendering_unknown": "no known rendering fits most of the provider's prompts of this kind",
    "prompt_rendering_undecided": "renderings of the same length cannot be told apart",
    "ids_after_stop": "the ids go on after the stop token",
    "stop_token_in_cut_output": "the ids end in a stop token, though the output is said to be cut",
    "stop_token_missing": "the ids lack the stop token, though the output is said to be whole",
    "settled_by_the_target": "the target model refuted every other convention of the provider",
    "surprises_the_target": "the target model finds other ids far likelier, so that these are not its own",
    "repaired_by_the_target": "other ids explain all that was seen too, and the target model finds them far likelier",
    "server_sends_otherwise": "the server that the provider is known to run would have sent other texts for these ids",
}


SPEAK_FOR_THE_IDS = frozenset(("count_closes", "one_token_steps", "token_ids", "logprobs"))
"""Reasons that say why ids are trusted; where they are not, they did not suffice."""


def reason_in_words(reason: str) -> str:
    """A reason (`code` or `code: details`) as a sentence; as it is where the code has none."""
    code, _, details = reason.partition(": ")
    if code.startswith("http_"):
        return f"the HTTP status is {code.removeprefix('http_')}"
    words = _IN_WORDS.get(code)
    if words is None:
        return f"the finish reason is {code.removeprefix('finish_')}" if code.startswith("finish_") else reason
    return f"{words}: {details}" if details else words
