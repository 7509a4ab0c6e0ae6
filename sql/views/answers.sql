-- A row for each answer with its verdict: when it came, what it took and cost, how its count closed.
CREATE VIEW answers AS
SELECT
    response.dataset,
    coalesce(response.provider, 'not named') AS provider,
    CAST(make_timestamp(CAST(1e6 * response.ended_at AS BIGINT)) AS DATE) AS day, -- UTC; null for local rows
    response.prompt_id,
    response.exchange_id,
    response.attempt,
    response.ended_at - response.asked_at AS seconds,
    response.cost_usd,
    sequence.verdict,
    sequence.verdict IN ('exact', 'consistent') AS trusted,
    sequence.completion_tokens,
    len(sequence.output_ids) AS output_tokens,
    -- What is left of the count under the provider's convention; 0 where it closes.
    coalesce(CAST(json_extract_string(sequence.evidence, '$.count_difference') AS INTEGER), sequence.count_difference)
        AS count_gap,
    sequence.canonical,
    json_extract_string(sequence.evidence, '$.convention') AS convention
FROM raw_responses AS response
JOIN all_sequences AS sequence USING (dataset, exchange_id)
WHERE response.outcome = 'answered';
