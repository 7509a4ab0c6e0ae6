-- What each dataset cost at each provider, in US dollars, and what of it bought a sequence that can be trained on.
CREATE VIEW spend AS
SELECT
    response.dataset,
    coalesce(response.provider, 'not named') AS provider,
    count(*) AS responses,
    count(*) FILTER (response.outcome <> 'answered') AS failed_attempts,
    count(*) FILTER (sequence.verdict IN ('exact', 'consistent')) AS trusted,
    coalesce(sum(response.cost_usd), 0) AS spent_usd,
    coalesce(sum(response.cost_usd) FILTER (sequence.verdict IN ('exact', 'consistent')), 0) AS spent_on_trusted_usd,
    coalesce(sum(len(sequence.output_ids)) FILTER (sequence.verdict IN ('exact', 'consistent')), 0)::BIGINT
        AS trusted_tokens
FROM raw_responses AS response
LEFT JOIN all_sequences AS sequence USING (dataset, exchange_id)
GROUP BY ALL;
