"""What a person does about a check that failed."""

SHOW = "Look at the worst offenders with `eagle-assets show EXCHANGE_ID`."
PREFLIGHT = "Run `eagle-assets preflight` for the whole report. Buy nothing before it passes."

NEXT_STEPS = {
    "vocabulary_is_official": f"Reinstall with `make setup`: the vocabulary is not the official one. {PREFLIGHT}",
    "special_tokens_roundtrip": PREFLIGHT,
    "full_output_roundtrips": PREFLIGHT,
    "encoders_agree": PREFLIGHT,
    "prompts_are_valid": "Mend the lines that are named in the prompts file, then materialise `prompts` again.",
    "dataset_fits_budget": "Lower `max_tokens`, take fewer prompts, or raise `budget_usd` in the datasets file.",
    "providers_allowed": "Look at `routing` in the datasets file and at `routing.yaml` in the home: who may answer? "
    "Of a dataset of your own server: does it give the ids of its answers?",
    "nothing_lost": "Materialise `raw_responses` again: it buys only what the journal does not hold. If it stays, keep "
    "the home as it is and report it.",
    "spend_within_budget": "Look at `eagle-assets budget`; raise the cap in the datasets file, or stop here.",
    "roundtrip_is_exact": f"{SHOW} Ids that do not give the text again are a defect of this project: report one.",
    "counts_close": f"{SHOW} `eagle-assets query count_differences` shows whether one provider is behind it.",
    "contradictions_below_threshold": f"{SHOW} `eagle-assets query conventions` names what was supposed of each "
    "provider; where one changed how it serves, put it into `routing.ignore`.",
    "residual_error_below_limit": "Collect more answers of the providers concerned, or raise `max_residual_error` in "
    f"the datasets file if you can live with the error. {SHOW}",
    "surprises_below_threshold": f"{SHOW} `eagle-assets query judged` shows which provider it is: its convention may "
    "be another than was supposed. Is the judge the model that answered, and none that was quantised anew?",
    "shards_hold_only_trusted_ids": "Materialise `token_sequences` and then `training_shards` again.",
    "masks_cover_generated_tokens": "Materialise `token_sequences` and then `training_shards` again.",
    "mapping_is_consistent": "Materialise `draft_vocabulary` again. If it stays, report it.",
}
