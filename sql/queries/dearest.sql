-- Which twenty prompts cost most, all attempts at them together, and was their answer worth it?
SELECT
    dataset,
    response.prompt_id,
    count(*) AS attempts,
    round(sum(response.cost_usd), 6) AS cost_usd,
    round(100 * sum(response.cost_usd) / nullif(sum(sum(response.cost_usd)) OVER (), 0), 2) AS percent_of_all,
    max(sequence.completion_tokens) AS completion_tokens,
    arg_max(response.exchange_id, response.attempt) AS last_exchange_id,
    arg_max(sequence.verdict, response.attempt) AS last_verdict
FROM raw_responses AS response
LEFT JOIN all_sequences AS sequence USING (dataset, exchange_id)
WHERE asked_for(dataset)
GROUP BY dataset, response.prompt_id
HAVING sum(response.cost_usd) > 0
ORDER BY sum(response.cost_usd) DESC, prompt_id
LIMIT 20;
