-- How many answers were proved or trusted, by dataset, provider and day?
SELECT
    dataset,
    provider,
    day,
    count(*) AS answers,
    count(*) FILTER (verdict = 'exact') AS exact,
    count(*) FILTER (trusted) AS trusted,
    round(100 * count(*) FILTER (verdict = 'exact') / count(*), 1) AS exact_percent,
    round(100 * count(*) FILTER (trusted) / count(*), 1) AS trusted_percent
FROM answers
WHERE asked_for(dataset)
GROUP BY ALL
ORDER BY dataset, provider, day;
