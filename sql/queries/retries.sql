-- How often had a request to be tried again, at whom, and why? What it cost, and how many prompts got no answer at all.
WITH
    answered AS (SELECT DISTINCT dataset, prompt_id FROM raw_responses WHERE outcome = 'answered')
SELECT
    dataset,
    coalesce(
        provider,
        try(json_extract_string(decode(body), '$.error.metadata.provider_name')),
        'not named'
    ) AS provider,
    outcome,
    status,
    regexp_replace(coalesce(reason, transport_error, 'not said'), '[0-9]{3,}', '…', 'g') AS cause,
    count(*) AS attempts,
    count(DISTINCT prompt_id) FILTER (answered.prompt_id IS NULL) AS prompts_without_answer,
    round(coalesce(sum(cost_usd), 0), 6) AS cost_usd
FROM raw_responses
LEFT JOIN answered USING (dataset, prompt_id)
WHERE outcome <> 'answered' AND asked_for(dataset)
GROUP BY ALL
ORDER BY attempts DESC, dataset, provider, cause;
