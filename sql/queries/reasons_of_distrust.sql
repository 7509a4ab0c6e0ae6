-- Why are responses kept out of the training shards, most frequent reason first?
SELECT verdict, reason, provider, sum(sequences)::BIGINT AS sequences, list_sort(list(DISTINCT dataset)) AS datasets
FROM reasons_of_distrust
WHERE asked_for(dataset)
GROUP BY verdict, reason, provider
ORDER BY sequences DESC, verdict, reason, provider;
