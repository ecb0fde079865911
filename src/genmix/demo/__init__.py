"""The demo: Mixture-Greedy learns which of five digit generators to ask, and how often."""

from genmix.demo.run import DemoResult, Scores, Step, run_demo

__all__ = ["DemoResult", "Scores", "Step", "run_demo"]
