#!/bin/sh
# Real logs of language models, from files to certificates. DATA is a folder with
#   routerbench_0shot_subset.parquet              eleven models on 3,164 prompts (a part of RouterBench)
#   llama31_8b_mxquant_triviaqa.parquet           ROUGE-L of 50 quantisations of Llama 3.1 8B on 9,960 questions, a column each
#   llama31_8b_mxquant_triviaqa_configs.csv       what the quantisations are
# What the commands print is in examples/language_models.md; how often they would be wrong, in
# benchmarks/results/language_models.md.
set -eu
DATA=${1:?usage: language_models.sh DATA}
cd "$(mktemp -d)"

# The smallest quantisation that loses at most two points against the full model.
riskfront calibrate "$DATA/llama31_8b_mxquant_triviaqa.parquet" --wide --example-column sample_id \
    --settings "$DATA/llama31_8b_mxquant_triviaqa_configs.csv" \
    --reference full --limit "score drop <= 0.02" --minimize avg_bitwidth --out quantised.json

# Eleven models, one run each; the cheapest cascade of two that loses at most three points against the best model.
riskfront import routerbench "$DATA/routerbench_0shot_subset.parquet" --out runs.parquet
riskfront cascade runs.parquet --reference gpt-4-1106-preview --limit "score drop <= 0.03" --minimize cost --out policy
