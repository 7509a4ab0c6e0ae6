-- Which serving convention explains each provider's answers, and how many counts close under it?
SELECT
    provider,
    coalesce(convention, 'the ids are given') AS convention,
    count(*) AS answers,
    count(*) FILTER (count_gap = 0) AS closed,
    count(*) FILTER (trusted) AS trusted
FROM answers
WHERE verdict <> 'unusable' AND asked_for(dataset)
GROUP BY ALL
ORDER BY provider, answers DESC;
