"""Policies, which choose the next arm."""

from genmix.policies.fixed import Fixed, MixtureOracle, OneArmOracle, Uniform
from genmix.policies.mixture_greedy import MixtureBonus, MixtureGreedy
from genmix.policies.mixture_ucb import MixtureOGD, MixtureUCB, MixtureUCBV
from genmix.policies.policy import Decision, Policy, Situation, Statistics, label_of
from genmix.policies.single_arm import EpsilonGreedy, FrechetUCB, OneArmGreedy, OneArmUCB

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
    "MixtureUCBV",
    "OneArmGreedy",
    "OneArmOracle",
    "OneArmUCB",
    "Policy",
    "Situation",
    "Statistics",
    "Uniform",
    "label_of",
]
