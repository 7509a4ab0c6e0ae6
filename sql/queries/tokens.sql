-- How many tokens of each dataset reach the training shards?
SELECT
    dataset,
    sequences,
    output_tokens,
    shard_rows,
    shard_tokens,
    generated_tokens,
    round(100 * generated_tokens / nullif(output_tokens, 0), 1) AS trained_percent
FROM tokens
WHERE asked_for(dataset)
ORDER BY dataset;
