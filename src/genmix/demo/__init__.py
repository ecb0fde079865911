"""The demo: Mixture-Greedy learns which of five digit generators to ask, and how often."""

from genmix.errors import InputError

try:
    from genmix.demo.run import DemoResult, Scores, Step, run_demo
except ModuleNotFoundError as error:
    raise InputError(f"the demo needs {error.name}: run pip install 'genmix[demo]'.") from error

__all__ = ["DemoResult", "Scores", "Step", "run_demo"]
