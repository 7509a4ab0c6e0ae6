-- How often did the model leave the encoder's path? Only where the server's own evidence proves the ids.
SELECT
    dataset,
    provider,
    count(canonical) AS proved,
    count(*) FILTER (NOT canonical) AS non_canonical,
    round(100 * count(*) FILTER (NOT canonical) / count(canonical), 2) AS non_canonical_percent,
    (list(exchange_id ORDER BY exchange_id) FILTER (NOT canonical))[:3] AS for_example
FROM answers
WHERE canonical IS NOT NULL AND asked_for(dataset)
GROUP BY dataset, provider
ORDER BY non_canonical DESC, dataset, provider;
