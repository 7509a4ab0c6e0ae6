"""What the command line shows of verdicts, calibrations and single responses."""
