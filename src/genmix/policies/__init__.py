"""Policies, which choose the next arm."""

from genmix.policies.fixed import Fixed, MixtureOracle, OneArmOracle, Uniform
from genmix.policies.mixture_greedy import MixtureBonus, MixtureGreedy
from genmix.policies.mixture_ucb import MixtureOGD, MixtureUCB, MixtureUCBV
from genmix.policies.policy import Decision, Policy, Situation, Statistics, label_of
from genmix.policies.prompt_memory import Pair, Prompt, PromptMemory
from genmix.policies.prompted import DAKUCB, PAKUCB, MixtureDAKUCB, PromptPolicy
from genmix.policies.single_arm import EpsilonGreedy, FrechetUCB, OneArmGreedy, OneArmUCB
from genmix.policies.successive_halving import SuccessiveHalving

__all__ = [
    "DAKUCB",
    "PAKUCB",
    "Decision",
    "EpsilonGreedy",
    "Fixed",
    "FrechetUCB",
    "MixtureBonus",
    "MixtureDAKUCB",
    "MixtureGreedy",
    "MixtureOGD",
    "MixtureOracle",
    "MixtureUCB",
    "MixtureUCBV",
    "OneArmGreedy",
    "OneArmOracle",
    "OneArmUCB",
    "Pair",
    "Policy",
    "Prompt",
    "PromptMemory",
    "PromptPolicy",
    "Situation",
    "Statistics",
    "SuccessiveHalving",
    "Uniform",
    "label_of",
]
