-- Every sequence as the shards go by it: as the target model judged it, where the datasets file names it as the judge
-- and it judged the verdict that stands now.
CREATE VIEW all_sequences AS
WITH judged AS (
    SELECT judged_sequences.*
    FROM judged_sequences
    SEMI JOIN token_sequences AS now
        ON
            now.dataset = judged_sequences.dataset
            AND now.exchange_id = judged_sequences.exchange_id
            AND now.verdict = judged_sequences.verdict_before
    WHERE verdict_stage() = 'judged_sequences'
)
SELECT * EXCLUDE (verdict_before, log_likelihood, surprise, surprise_kind, surprising)
FROM judged
UNION ALL BY NAME
SELECT *
FROM token_sequences
ANTI JOIN judged USING (dataset, exchange_id);
