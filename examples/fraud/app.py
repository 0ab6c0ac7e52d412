"""Scores card payments by a model for each card, which learns from the bank's verdicts as they arrive."""

from dataclasses import dataclass, field

from payments import Payment, Score, Verdict
from river.compose import Pipeline as Model
from river.linear_model import LogisticRegression
from river.preprocessing import StandardScaler

from headrace.pipelines import Flow, Pipeline
from headrace.pipelines.formats import json

ALARM = 0.3
"""Payments whose score is at least this are held back."""
Features = dict[str, float]


def new_model() -> Model:
    """Returns a model that knows nothing, and takes any payment for honest."""
    return Model(StandardScaler(), LogisticRegression(intercept_init=-3.0))


@dataclass(slots=True)
class Card:
    """The state of a card: its model, and the payments without a verdict."""

    model: Model = field(default_factory=new_model)
    unjudged: dict[int, Features] = field(default_factory=dict)


def judge(event: Payment | Verdict, card: Card) -> Score | None:
    """Scores a payment; learns from a verdict."""
    if isinstance(event, Verdict):
        if (features := card.unjudged.pop(event.payment, None)) is not None:
            card.model.learn_one(features, event.fraud)
        return None
    features = {"amount": event.amount, "km": event.km, "night": float(event.hour < 6)}
    card.unjudged[event.id] = features
    score = card.model.predict_proba_one(features)[True]
    return Score(event.id, event.card, round(score, 6), score >= ALARM)


app = Pipeline("fraud")
events: Flow[Payment | Verdict] = app.source("cards/*", decode=json(Payment | Verdict))
events.key_by(lambda event: event.card).stateful(judge, Card, name="models").sink("scores", encode=json())
