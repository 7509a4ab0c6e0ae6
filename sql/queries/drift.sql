-- Did a provider change how it serves? Day by day: trusted answers, closed counts, the convention, and what moved.
WITH
    days AS (
        SELECT
            provider,
            day,
            count(*) AS answers,
            round(100 * count(*) FILTER (trusted) / count(*), 1) AS trusted_percent,
            round(
                100 * count(*) FILTER (count_gap = 0) / nullif(count(count_gap), 0), 1
            ) AS closed_percent,
            mode(convention) AS convention
        FROM answers
        WHERE day IS NOT NULL AND asked_for(dataset)
        GROUP BY provider, day
    )
SELECT
    provider,
    day,
    answers,
    trusted_percent,
    round(trusted_percent - lag(trusted_percent) OVER by_day, 1) AS trusted_moved,
    closed_percent,
    round(closed_percent - lag(closed_percent) OVER by_day, 1) AS closed_moved,
    convention,
    convention <> lag(convention) OVER by_day AS convention_changed
FROM days
WINDOW by_day AS (PARTITION BY provider ORDER BY day)
ORDER BY provider, day;
