-- How many of the trusted sequences that were bought may be wrong all the same? The least and the most, at 95 %.
SELECT
    dataset,
    (counts['exact'] + counts['consistent'])::BIGINT AS trusted,
    counts['consistent']::BIGINT AS consistent,
    counts['may_be_wrong_low']::BIGINT AS least,
    counts['may_be_wrong_high']::BIGINT AS most,
    round(100 * counts['may_be_wrong_high'] / nullif(counts['exact'] + counts['consistent'], 0), 1) AS most_percent
FROM audits
WHERE
    stage = 'token_sequences'
    AND is_current
    AND dataset IN (SELECT dataset FROM raw_responses WHERE asked_at IS NOT NULL)
    AND asked_for(dataset)
ORDER BY dataset;
