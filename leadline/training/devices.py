"""A training that several devices share: what it is made of goes where `backend/sharding.py` wants it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx

from leadline.backend.sharding import Sharing
from leadline.training.checkpoint import Checkpoint
from leadline.training.epochs import History, Plan
from leadline.training.state import TrainingState

TrainEpochs = Callable[[Plan, TrainingState, Any], tuple[TrainingState, History]]


def shared_plan(plan: Plan) -> Plan:
    """With its tables on the devices."""
    assert plan.sharing is not None
    return eqx.tree_at(lambda p: p.data, plan, plan.sharing.table(plan.data))


def shared_checkpoint(begun: Checkpoint, sharing: Sharing) -> Checkpoint:
    """With its states on the devices."""
    return replace(begun, state=sharing.state(begun.state), good=sharing.state(begun.good))


def by_devices(train_epochs: TrainEpochs, sharing: Sharing) -> TrainEpochs:
    """`train_epochs` for states and clocks that come from anywhere."""

    def train(plan: Plan, state: TrainingState, n_epochs: Any) -> tuple[TrainingState, History]:
        data, without = plan.data, eqx.tree_at(lambda p: p.data, plan, None)
        placed = eqx.tree_at(lambda p: p.data, sharing.state(without), data, is_leaf=lambda node: node is None)
        return sharing.in_turn(train_epochs, placed, sharing.state(state), n_epochs)

    return train
