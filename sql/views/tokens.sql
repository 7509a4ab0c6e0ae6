-- Tokens of each dataset on their way from the answers to the shards.
CREATE VIEW tokens AS
SELECT
    dataset,
    count(*) AS sequences,
    coalesce(sum(len(sequence.output_ids)), 0)::BIGINT AS output_tokens,
    count(shard.id) AS shard_rows,
    coalesce(sum(len(shard.input_ids)), 0)::BIGINT AS shard_tokens,
    coalesce(sum(list_sum(shard.loss_mask)), 0)::BIGINT AS generated_tokens
FROM all_sequences AS sequence
LEFT JOIN training_shards AS shard USING (dataset, exchange_id)
GROUP BY dataset;
