"""The page about deployments holds what there is."""

from dataclasses import fields
from pathlib import Path

from tests.docs.pages import blocks, codes, table

from headrace.deploy import (
    Condition,
    GatewayOptions,
    PipelineOptions,
    ProcessStatus,
    QueryOptions,
    State,
    Status,
    load_deployment,
    missing,
    read_graphs,
)

DEPLOY = "docs/run/deploy.md"


def names(heading: str) -> list[str]:
    return [name for row in table(DEPLOY, heading) for name in codes(row[0])]


def test_keys() -> None:
    assert names("`[gateway]`") == list(GatewayOptions.model_fields)
    assert sorted(names("`[pipeline]`")) == sorted(PipelineOptions.model_fields)
    assert sorted(names("`[query.NAME]`")) == sorted(QueryOptions.model_fields)


def test_the_status() -> None:
    assert names("The status") == [field.name for field in fields(Status)]
    assert names("Each process") == [field.name for field in fields(ProcessStatus)]
    assert names("States") == [str(state) for state in State]
    (conditions,) = (codes(row[1]) for row in table(DEPLOY, "The status") if codes(row[0]) == ["condition"])
    assert conditions == [str(condition) for condition in Condition]


def test_the_example_is_valid_and_whole(tmp_path: Path) -> None:
    example, _ = blocks(DEPLOY, "toml")
    (tmp_path / "deploy.toml").write_text(example.text)
    (tmp_path / "app.py").write_text(blocks("README.md", "python")[-1].text)
    deployment = load_deployment(tmp_path / "deploy.toml")
    assert list(missing(deployment, read_graphs(deployment)["pipeline"])) == []


def test_the_example_of_secrets_is_valid(tmp_path: Path) -> None:
    _, example = blocks(DEPLOY, "toml")
    (tmp_path / "deploy.toml").write_text(example.text)
    (tmp_path / "secrets.env").write_text("KAFKA_PASSWORD=x\nTOTALS_TOKEN=of totals\n")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens/orders.token").write_text("of orders\n")
    found = load_deployment(tmp_path / "deploy.toml", {}).connectors
    assert found["orders"].gateway.token_file == tmp_path / "tokens/orders.token"
    token = found["totals"].gateway.token
    assert token is not None
    assert token.get_secret_value() == "of totals"
