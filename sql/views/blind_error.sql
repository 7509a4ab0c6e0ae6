-- The team's own outputs, served as text and judged blind: a row for each dataset, server, way and length class.
CREATE VIEW blind_error AS
SELECT dataset, row.*
FROM (
    SELECT
        dataset,
        unnest(
            from_json(
                worst,
                '[{"server": "VARCHAR", "streamed": "BOOLEAN", "length": "VARCHAR", "outputs": "BIGINT",
                   "trusted": "BIGINT", "right": "BIGINT", "exact": "BIGINT", "false_exact": "BIGINT"}]'
            )
        ) AS row
    FROM checks
    JOIN audits USING (time, stage, dataset, run_id)
    WHERE stage = 'token_sequences' AND name = 'residual_error_below_limit' AND is_current
)
WHERE row.server IS NOT NULL;
