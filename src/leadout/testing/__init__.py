"""Doubles whose answers can be computed by hand, and tiny real model files, for your tests and ours."""

from leadout.testing.broken_promise import BrokenPromise
from leadout.testing.rule_constraint import RuleConstraint
from leadout.testing.scripted_drafter import ScriptedDrafter
from leadout.testing.table_model import TableModel, constant, first_order, saying
from leadout.testing.vocabulary import PieceVocabulary

__all__ = [
    "BrokenPromise",
    "PieceVocabulary",
    "RuleConstraint",
    "ScriptedDrafter",
    "TableModel",
    "constant",
    "first_order",
    "saying",
]
