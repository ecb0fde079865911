"""Callbacks that show a running study in other tools: metrics, logs, traces and experiment trackers."""

from __future__ import annotations

from genmix.callbacks.base import Logger, flat
from genmix.callbacks.json_log import JsonLog
from genmix.callbacks.metrics import Metrics
from genmix.callbacks.mlflow import MLflow
from genmix.callbacks.opentelemetry import OpenTelemetry
from genmix.callbacks.tensorboard import TensorBoard
from genmix.callbacks.wandb import WandB

__all__ = [
    "JsonLog",
    "Logger",
    "MLflow",
    "Metrics",
    "OpenTelemetry",
    "TensorBoard",
    "WandB",
    "flat",
]
