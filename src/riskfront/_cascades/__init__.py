"""From one run a model to every cascade and router that can be built of them, and to the policy that is deployed.

``confidence`` says when an answer is trusted, ``routes`` lists which models in which order with which thresholds,
``outcomes`` computes what each of them would have scored and cost, a block at a time. ``cascade`` puts these together into a
LossTable; ``policy`` is what a certificate allows to run: plain JSON with ``route`` and ``aroute``. ``run_time`` says
what it reads of requests and responses.

``gain`` predicts what every model would score and cost, from ``features``; ``comparison`` sets that beside trivial rules.
``words`` states the rule of any setting.
"""
