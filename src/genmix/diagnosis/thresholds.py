"""The thresholds that the diagnosis and the report share."""

CHANCE_SIGMAS = 3.0
"""A difference of at most this many standard deviations may be due to chance."""

UNUSED_WEIGHT = 0.005
"""An arm with less weight than this counts as unused."""

SEPARATION = 8
"""The paper's innovation assumption requires ν_0 to exceed this many times ε_0."""
