"""Training, in steps that are done once: fine-tuning, importance of heads, token predictors, exit heads.

``training`` is the door. ``fine_tuning`` (or the user's own Trainer: ``own_trainer``), ``importance`` and
``head_training`` are the steps, ``steps`` and ``checkpoint`` let a stopped run go on, ``exit_report`` says what each
exit answers beside the most frequent class, ``pruning_report`` what scores of tokens and heads bring beside chance.
"""
