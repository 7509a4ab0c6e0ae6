-- Which providers' answers can be trusted, and what speaks most often against the others?
WITH
    answers AS (
        SELECT
            provider,
            sum(sequences)::BIGINT AS sequences,
            coalesce(sum(sequences) FILTER (trusted), 0)::BIGINT AS trusted
        FROM verdicts
        WHERE provider <> 'not named' AND asked_for(dataset)
        GROUP BY provider
    ),
    counted AS (
        SELECT provider, reason, sum(sequences) AS sequences
        FROM reasons_of_distrust
        WHERE asked_for(dataset)
        GROUP BY provider, reason
    ),
    reasons AS (
        SELECT provider, arg_max(reason, (sequences, reason)) AS most_frequent_reason FROM counted GROUP BY provider
    )
SELECT provider, sequences, trusted, round(100 * trusted / sequences, 1) AS trusted_percent, most_frequent_reason
FROM answers
LEFT JOIN reasons USING (provider)
ORDER BY trusted_percent DESC, provider;
