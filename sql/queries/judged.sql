-- What did the target model change, and how likely does it find what each provider sent?
SELECT
    dataset,
    coalesce(provider, 'not named') AS provider,
    count(*) FILTER (surprise IS NOT NULL) AS judged,
    count(*) FILTER (verdict_before = 'unverified' AND verdict = 'consistent') AS settled,
    count(*) FILTER (list_contains(list_transform(reasons, lambda r: split_part(r, ':', 1)), 'repaired_by_the_target'))
        AS repaired,
    count(*) FILTER (verdict_before = 'consistent' AND verdict = 'contradicted') AS contradicted,
    round(max(surprise), 1) AS most_nats,
    round(sum(log_likelihood) / nullif(sum(len(output_ids)) FILTER (surprise IS NOT NULL), 0), 3) AS nats_a_token
FROM judged_sequences
WHERE verdict_stage() = 'judged_sequences' AND asked_for(dataset)
GROUP BY ALL
ORDER BY dataset, provider;
