-- How many of the consistent sequences are wrong, by the target model's word alone? The estimate and the most, at 95 %.
SELECT
    checks.dataset,
    numbers['scanned']::BIGINT AS consistent,
    numbers['alarms']::BIGINT AS surprising,
    round(100 * numbers['error_by_the_target'], 2) AS wrong_percent,
    round(100 * numbers['error_by_the_target_at_most'], 2) AS most_percent,
    counts['proven']::BIGINT AS proven,
    counts['false_alarms']::BIGINT AS false_alarms,
    round(100 * counts['false_alarms_expected'], 2) AS false_alarms_expected_percent,
    counts['planted']::BIGINT AS planted,
    round(100 * counts['found_of_planted'], 1) AS found_percent
FROM checks
JOIN audits USING (time, stage, dataset, run_id)
WHERE
    checks.name = 'surprises_below_threshold'
    AND is_current
    AND verdict_stage() = 'judged_sequences'
    AND asked_for(checks.dataset)
ORDER BY checks.dataset;
