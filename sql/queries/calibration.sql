-- What did probes prove of each provider, at what price, and who is better not asked?
SELECT slug AS provider, proof, conventions, answers, unexplained, completion_usd_per_million, round(probes_usd, 6) AS probes_usd, refused
FROM calibration
ORDER BY refused IS NOT NULL, completion_usd_per_million, slug;
