-- What does a token cost at each provider, and what does one cost that can be trained on? Cheapest trusted one first.
SELECT
    provider,
    round(sum(cost_usd), 4) AS spent_usd,
    sum(completion_tokens)::BIGINT AS bought_tokens,
    coalesce(sum(output_tokens) FILTER (trusted), 0)::BIGINT AS trusted_tokens,
    round(1e6 * sum(cost_usd) / nullif(sum(completion_tokens), 0), 2) AS usd_per_million_bought,
    round(1e6 * sum(cost_usd) / nullif(sum(output_tokens) FILTER (trusted), 0), 2) AS usd_per_million_trusted
FROM answers
WHERE cost_usd IS NOT NULL AND asked_for(dataset)
GROUP BY provider
ORDER BY usd_per_million_trusted NULLS LAST, provider;
