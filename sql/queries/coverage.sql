-- How much of what was generated can the draft vocabulary propose, by dataset?
WITH
    generated AS (
        SELECT dataset, unnest(input_ids) AS token, unnest(loss_mask) AS is_generated
        FROM training_shards
        WHERE asked_for(dataset)
    ),
    counted AS (SELECT dataset, token, count(*) AS count FROM generated WHERE is_generated = 1 GROUP BY dataset, token)
SELECT
    dataset,
    sum(count)::BIGINT AS generated_tokens,
    count(*) AS distinct_tokens,
    round(100 * coalesce(sum(count) FILTER (draft_id IS NOT NULL), 0) / sum(count), 2) AS covered_percent,
    count(*) FILTER (draft_id IS NULL) AS distinct_not_covered
FROM counted
LEFT JOIN (SELECT token, draft_id FROM token_frequencies) USING (token)
GROUP BY dataset
ORDER BY dataset;
