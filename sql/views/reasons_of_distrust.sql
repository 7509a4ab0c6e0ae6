-- Why sequences are not trusted: a row for each dataset, provider, verdict and reason; a sequence may have several.
-- Reasons that speak for the ids, and did not suffice, are left out.
CREATE VIEW reasons_of_distrust AS
SELECT dataset, provider, verdict, reason, count(*) AS sequences
FROM (
    SELECT dataset, coalesce(provider, 'not named') AS provider, verdict, unnest(reasons) AS reason
    FROM all_sequences
    WHERE verdict NOT IN ('exact', 'consistent')
)
WHERE reason NOT IN ('count_closes', 'one_token_steps', 'token_ids', 'logprobs')
GROUP BY ALL;
