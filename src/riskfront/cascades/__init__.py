"""From one run a model to every cascade and router that can be built of them, and to the policy that is deployed.

``confidence`` says when an answer is trusted, ``settings`` lists which models in which order with which thresholds,
``columns`` computes what each of them would have scored and cost, a block at a time. ``cascade`` puts these together into a
LossTable; ``policy`` is what a certificate allows to run: plain JSON with ``route`` and ``aroute``. ``exports`` writes it for
other routers.
"""
