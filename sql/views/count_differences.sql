-- Tokens that a provider counted against tokens of the reconstructed output. A difference of 0 proves little; any
-- other one says that ids, count, or convention are not understood.
CREATE VIEW count_differences AS
SELECT
    dataset,
    coalesce(provider, 'not named') AS provider,
    coalesce(finish_reason, 'none') AS finish_reason,
    count_difference,
    verdict,
    count(*) AS sequences
FROM all_sequences
WHERE count_difference IS NOT NULL
GROUP BY ALL;
