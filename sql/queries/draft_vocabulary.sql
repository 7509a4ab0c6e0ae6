-- How much of what was generated could a draft vocabulary cover, by its size?
SELECT
    size,
    round(100 * sum(count) FILTER (place <= size) / nullif(sum(count), 0), 2) AS covered_percent
FROM (SELECT count, row_number() OVER (ORDER BY count DESC, token) AS place FROM token_frequencies)
CROSS JOIN (VALUES (1000), (4000), (8000), (16000), (32000), (64000)) AS sizes (size)
GROUP BY size
ORDER BY size;
