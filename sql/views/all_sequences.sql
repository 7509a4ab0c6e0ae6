-- Every sequence with the verdict and the ids that the shards go by: the target model's, where it judged.
CREATE VIEW all_sequences AS
SELECT
    sequence.* REPLACE (
        coalesce(judged.verdict, sequence.verdict) AS verdict,
        coalesce(judged.output_ids, sequence.output_ids) AS output_ids,
        coalesce(judged.reasons, sequence.reasons) AS reasons
    )
FROM token_sequences AS sequence
LEFT JOIN judged_sequences AS judged USING (dataset, exchange_id);
