-- How many of the trusted sequences that were bought may be wrong all the same? As many as the stated errors add up to
-- are expected; the least and the most hold at 95 %.
SELECT
    audits.dataset,
    (counts['exact'] + counts['consistent'])::BIGINT AS trusted,
    counts['consistent']::BIGINT AS consistent,
    round(numbers['residual_error'] * counts['consistent'], 1) AS expected,
    counts['may_be_wrong_low']::BIGINT AS least,
    counts['may_be_wrong_high']::BIGINT AS most,
    round(100 * counts['may_be_wrong_high'] / nullif(counts['exact'] + counts['consistent'], 0), 1) AS most_percent
FROM audits
LEFT JOIN checks
    ON
        checks.time = audits.time
        AND checks.stage = audits.stage
        AND checks.dataset = audits.dataset
        AND checks.run_id = audits.run_id
        AND checks.name = 'residual_error_below_limit'
WHERE
    audits.stage = 'token_sequences'
    AND is_current
    AND audits.dataset IN (SELECT dataset FROM raw_responses WHERE asked_at IS NOT NULL)
    AND asked_for(audits.dataset)
ORDER BY audits.dataset;
