"""Files of exchanges in, files of verdicts out, on all cores."""
