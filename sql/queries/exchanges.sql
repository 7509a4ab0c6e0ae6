-- Which exchanges are there to look at with `eagle-assets show`?
SELECT dataset, prompt_id, exchange_id, provider, verdict, reasons[1] AS first_reason
FROM all_sequences
WHERE asked_for(dataset)
ORDER BY dataset, prompt_id, exchange_id;
