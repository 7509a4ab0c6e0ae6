-- Every sequence as the shards go by it: as the target model judged it, where it did.
CREATE VIEW all_sequences AS
SELECT * EXCLUDE (verdict_before, log_likelihood, surprise, surprise_kind, surprising)
FROM judged_sequences
SEMI JOIN token_sequences USING (dataset, exchange_id)
UNION ALL BY NAME
SELECT *
FROM token_sequences
ANTI JOIN judged_sequences USING (dataset, exchange_id);
