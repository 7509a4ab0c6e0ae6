-- What did each dataset cost at each provider, and what does a million trusted tokens cost there?
SELECT
    dataset,
    provider,
    responses,
    failed_attempts,
    trusted,
    round(spent_usd, 4) AS spent_usd,
    trusted_tokens,
    round(1e6 * spent_usd / nullif(trusted_tokens, 0), 2) AS usd_per_million_trusted_tokens
FROM spend
WHERE asked_for(dataset)
ORDER BY dataset, provider;
