"""Policies: how the next arm is chosen."""

from genmix.policies.base import Decision, Policy, Situation
from genmix.policies.fixed import Fixed, MixtureOracle, OneArmOracle, Uniform
from genmix.policies.mixture import MixtureBonus, MixtureGreedy, MixtureOGD, MixtureUCB
from genmix.policies.single import EpsilonGreedy, FrechetUCB, OneArmGreedy, OneArmUCB

__all__ = [
    "Decision",
    "EpsilonGreedy",
    "Fixed",
    "FrechetUCB",
    "MixtureBonus",
    "MixtureGreedy",
    "MixtureOGD",
    "MixtureOracle",
    "MixtureUCB",
    "OneArmGreedy",
    "OneArmOracle",
    "OneArmUCB",
    "Policy",
    "Situation",
    "Uniform",
]
