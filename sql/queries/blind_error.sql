-- How many of the team's own outputs come back right, served as text and judged blind? The interval is Wilson's, 95 %.
WITH
    by_server AS (
        SELECT
            server,
            streamed,
            sum(outputs)::BIGINT AS outputs,
            sum(trusted)::BIGINT AS trusted,
            sum("right")::BIGINT AS "right",
            sum(false_exact)::BIGINT AS false_exact,
            sum("right") FILTER (length = 'under 100')
                / nullif(sum(trusted) FILTER (length = 'under 100'), 0) AS under_100,
            sum("right") FILTER (length = '100 to 999')
                / nullif(sum(trusted) FILTER (length = '100 to 999'), 0) AS to_999,
            sum("right") FILTER (length = '1,000 and more')
                / nullif(sum(trusted) FILTER (length = '1,000 and more'), 0) AS longer
        FROM blind_error
        WHERE asked_for(dataset)
        GROUP BY server, streamed
    ),
    with_interval AS (
        SELECT
            *,
            ("right" + 1.92) / (trusted + 3.84) AS middle,
            1.96 / (trusted + 3.84) * sqrt("right" * (trusted - "right") / nullif(trusted, 0) + 0.96) AS half
        FROM by_server
    )
SELECT
    server,
    streamed,
    outputs,
    trusted,
    round(100 * trusted / outputs, 1) AS trusted_percent,
    "right",
    round(100 * "right" / nullif(trusted, 0), 1) AS right_percent,
    round(100 * greatest(0, middle - half), 1) AS at_least,
    round(100 * least(1, middle + half), 1) AS at_most,
    round(100 * under_100, 1) AS under_100_tokens,
    round(100 * to_999, 1) AS to_999_tokens,
    round(100 * longer, 1) AS longer,
    false_exact
FROM with_interval
ORDER BY server, streamed;
