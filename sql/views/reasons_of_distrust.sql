-- Why sequences are not trusted: a row for each dataset, provider, verdict and reason; a sequence may have several.
CREATE VIEW reasons_of_distrust AS
SELECT dataset, provider, verdict, reason, count(*) AS sequences
FROM (
    SELECT dataset, coalesce(provider, 'not named') AS provider, verdict, unnest(reasons) AS reason
    FROM token_sequences
    WHERE verdict NOT IN ('exact', 'consistent')
)
GROUP BY ALL;
