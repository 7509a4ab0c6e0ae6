-- Whether a row is of the dataset that was asked for: `SET VARIABLE dataset = 'B3'`, or nothing for all of them.
CREATE MACRO asked_for(dataset) AS getvariable('dataset') IS NULL OR dataset = getvariable('dataset');
