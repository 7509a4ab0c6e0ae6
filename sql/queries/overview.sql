-- What became of each dataset, from prompts to training shards? `beyond_budget` prompts found no room in the budget.
WITH
    asked AS (SELECT dataset, count(*) AS prompts FROM prompts GROUP BY dataset),
    answered AS (
        SELECT
            dataset,
            count(*) FILTER (outcome = 'answered') AS answers,
            count(*) FILTER (outcome <> 'answered') AS failed_attempts,
            sum(cost_usd) AS spent_usd
        FROM raw_responses
        GROUP BY dataset
    ),
    ended AS (
        SELECT dataset, counts['beyond_budget']::BIGINT AS beyond_budget
        FROM audits
        WHERE stage = 'raw_responses' AND is_current
    ),
    judged AS (
        SELECT
            dataset,
            count(*) FILTER (verdict = 'exact') AS exact,
            count(*) FILTER (verdict = 'consistent') AS consistent,
            count(*) FILTER (verdict = 'unverified') AS unverified,
            count(*) FILTER (verdict = 'contradicted') AS contradicted,
            count(*) FILTER (verdict = 'unusable') AS unusable
        FROM all_sequences
        GROUP BY dataset
    ),
    sharded AS (
        SELECT dataset, count(*) AS shard_rows, sum(list_sum(loss_mask))::BIGINT AS tokens_to_learn
        FROM training_shards
        GROUP BY dataset
    )
SELECT
    dataset,
    round(spent_usd, 4) AS spent_usd,
    prompts,
    answers,
    beyond_budget,
    failed_attempts,
    exact,
    consistent,
    unverified,
    contradicted,
    unusable,
    shard_rows,
    tokens_to_learn
FROM asked
FULL JOIN answered USING (dataset)
FULL JOIN judged USING (dataset)
LEFT JOIN ended USING (dataset)
FULL JOIN sharded USING (dataset)
WHERE asked_for(dataset)
ORDER BY dataset;
