-- How far can the ids of each dataset and provider be trusted?
SELECT
    dataset,
    provider,
    sum(sequences)::BIGINT AS sequences,
    coalesce(sum(sequences) FILTER (verdict = 'exact'), 0)::BIGINT AS exact,
    coalesce(sum(sequences) FILTER (verdict = 'consistent'), 0)::BIGINT AS consistent,
    coalesce(sum(sequences) FILTER (verdict = 'unverified'), 0)::BIGINT AS unverified,
    coalesce(sum(sequences) FILTER (verdict = 'contradicted'), 0)::BIGINT AS contradicted,
    coalesce(sum(sequences) FILTER (verdict = 'unusable'), 0)::BIGINT AS unusable,
    round(100 * coalesce(sum(sequences) FILTER (trusted), 0) / sum(sequences), 1) AS trusted_percent
FROM verdicts
WHERE asked_for(dataset)
GROUP BY dataset, provider
ORDER BY dataset, provider;
