"""The target model as a judge of ids: its own likelihoods, independent of whoever served the text."""
