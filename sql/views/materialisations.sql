-- Versions that passed their audit and were published, each with the run that made it. `audits` has the failures too.
CREATE VIEW materialisations AS
SELECT time, stage, dataset, is_current, rows, bytes, counts, run_id, identity, code_version, vocabulary, audit_sha256
FROM audits
WHERE passed;
