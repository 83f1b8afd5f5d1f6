"""Guided search: ``strategy`` says where settings could still be certified, ``region_sampler`` looks for the front there."""
