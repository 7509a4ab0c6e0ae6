-- Which materialisations were superseded, when and by which run, and did the content change?
WITH
    versions AS (
        SELECT
            *,
            lead(time) OVER later AS superseded_at,
            lead(run_id) OVER later AS superseded_by,
            lead(identity) OVER later AS next_identity,
            lead(rows) OVER later AS next_rows
        FROM audits
        WHERE passed AND asked_for(dataset)
        WINDOW later AS (PARTITION BY stage, dataset ORDER BY time)
    )
SELECT
    stage,
    dataset,
    strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S') AS made_utc,
    strftime(superseded_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S') AS superseded_utc,
    rows,
    next_rows - rows AS rows_more,
    next_identity <> identity AS content_changed,
    run_id,
    superseded_by
FROM versions
WHERE superseded_at IS NOT NULL
ORDER BY superseded_at DESC, stage, dataset;
