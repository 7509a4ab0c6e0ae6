-- How much of the budget is spent, reserved for requests in flight, and left, in all and by dataset?
SELECT
    coalesce(dataset, 'all') AS dataset,
    round(spent_usd, 4) AS spent_usd,
    round(reserved_usd, 4) AS reserved_usd,
    round(left_usd, 4) AS left_usd
FROM ledger
WHERE asked_for(dataset)
ORDER BY dataset = 'all', dataset;
