-- Which twenty prompts took longest, and what did they bring?
SELECT dataset, prompt_id, exchange_id, provider, round(seconds, 1) AS seconds, completion_tokens,
    round(completion_tokens / nullif(seconds, 0), 1) AS tokens_a_second, round(cost_usd, 6) AS cost_usd, verdict
FROM answers
WHERE seconds IS NOT NULL AND asked_for(dataset)
ORDER BY answers.seconds DESC, exchange_id
LIMIT 20;
