-- Where does a provider's token count differ from the reconstructed output, by finish reason?
SELECT
    provider,
    finish_reason,
    sum(sequences)::BIGINT AS sequences,
    coalesce(sum(sequences) FILTER (count_difference = 0), 0)::BIGINT AS closed,
    min(count_difference) AS least,
    max(count_difference) AS greatest,
    round(sum(count_difference * sequences) / sum(sequences), 2) AS mean
FROM count_differences
WHERE asked_for(dataset)
GROUP BY provider, finish_reason
ORDER BY provider, finish_reason;
