"""Exits: where they and the token predictors stand between the layers, and what they read."""
