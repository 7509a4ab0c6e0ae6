-- What was materialised when, and what did its audit refuse? Latest first.
SELECT strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S') AS time_utc, stage, dataset, passed, is_current, rows, failed_checks, run_id
FROM audits
WHERE asked_for(dataset)
ORDER BY time DESC, stage, dataset;
