-- How many sequences of each dataset, provider and verdict there are, and how many tokens they hold.
CREATE VIEW verdicts AS
SELECT
    dataset,
    coalesce(provider, 'not named') AS provider,
    verdict,
    verdict IN ('exact', 'consistent') AS trusted,
    count(*) AS sequences,
    coalesce(sum(len(output_ids)), 0)::BIGINT AS output_tokens
FROM all_sequences
GROUP BY ALL;
