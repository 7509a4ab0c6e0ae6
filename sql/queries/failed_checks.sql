-- Which checks failed, and what did they find? Latest first.
SELECT strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S') AS time_utc, stage, dataset, name, sentence, run_id
FROM checks
WHERE NOT passed AND asked_for(dataset)
ORDER BY time DESC, stage, dataset, name;
