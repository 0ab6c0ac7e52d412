"""A sample has a test of each kind, and each heavy test is in exactly one share."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.selection import spent
from tests.selection.choice import (
    FRACTION,
    MAX_FIRST_COST,
    TABLE,
    TURNS,
    Heavy,
    Share,
    cost_of,
    each_value,
    gone,
    parse_share,
    read_costs,
    sample,
    subject_of,
    turn_of,
)
from tests.selection.forecast import forecast
from tests.selection.left_out import describe

SHARES = 8
MODULES = st.sampled_from(["tests/a/test_a.py", "tests/a/test_b.py", "tests/b/test_a.py"])
TESTS = st.lists(
    st.builds(
        lambda module, number, cost, others: Heavy(f"{module}::test_{number}", cost, module, frozenset(others)),
        MODULES,
        st.integers(0, 30),
        st.floats(0.5, 200),
        st.sets(st.sampled_from(["kafka", "nats"])),
    ),
    unique_by=lambda test: test.name,
)
SEEDS = st.text(max_size=8)


@given(st.text())
def test_each_test_is_in_exactly_one_share(name: str) -> None:
    assert sum(name in Share(part, SHARES) for part in range(1, SHARES + 1)) == 1


def test_shares_of_many_tests_are_about_equal() -> None:
    counts = [sum(f"tests/a/test_a.py::test_{number}" in Share(part, SHARES) for number in range(8_000)) for part in range(1, 9)]
    assert min(counts) > 800
    assert max(counts) < 1_200


@pytest.mark.parametrize("of", [TURNS, 8])
def test_each_turn_comes(of: int) -> None:
    assert {turn_of(str(seed), of) for seed in range(100)} == {*range(1, of + 1)}


def test_a_forecast_has_the_cost_of_the_tests_that_a_run_has() -> None:
    costs = {"tests/a/test_a.py::test_a": 2.5, "tests/b/test_b.py::test_b[1]": 4}
    tests = [f"tests/{folder}/test_{folder}.py::test_{folder}[{case}]" for folder in "ab" for case in (1, 2)]
    assert forecast("7", tests, costs) == "7: 9 s: a 5, b 4"


@given(TESTS, SEEDS)
def test_a_sample_has_a_test_of_each_kind(tests: list[Heavy], seed: str) -> None:
    chosen = sample(tests, seed)
    assert {test.subject for test in tests if test.name in chosen} == {test.subject for test in tests}
    assert {kind for test in tests if test.name in chosen for kind in test.others} == {
        kind for test in tests for kind in test.others
    }


@given(TESTS, SEEDS)
def test_the_same_seed_gives_the_same_sample_in_another_order(tests: list[Heavy], seed: str) -> None:
    assert sample(reversed(tests), seed) == sample(tests, seed)


@given(TESTS, SEEDS)
def test_a_sample_costs_no_more_than_its_part_of_each_subject_and_one_test_of_each_kind(tests: list[Heavy], seed: str) -> None:
    alone = [Heavy(test.name, test.cost, test.subject) for test in tests]
    chosen = sample(alone, seed)
    for subject in {test.subject for test in alone}:
        of_subject = [test for test in alone if test.subject == subject]
        taken = [test.cost for test in of_subject if test.name in chosen]
        assert len(taken) == 1 or sum(taken) <= FRACTION * sum(test.cost for test in of_subject) + 1e-6


@given(TESTS, SEEDS)
def test_a_sample_and_the_shares_of_what_it_leaves_out_are_all_tests(tests: list[Heavy], seed: str) -> None:
    chosen = sample(tests, seed)
    rest = {test.name for test in tests} - chosen
    shares = [{name for name in rest if name in Share(part, SHARES)} for part in range(1, SHARES + 1)]
    assert sum(map(len, shares)) == len(rest)
    assert chosen.union(*shares) == {test.name for test in tests}


@given(st.lists(st.fixed_dictionaries({"a": st.integers(0, 4), "b": st.integers(0, 4), "c": st.booleans()}), min_size=1), SEEDS)
def test_cases_are_chosen_that_have_each_value_of_each_parameter(cases: list[dict[str, int]], seed: str) -> None:
    chosen = each_value(cases, seed)
    assert {item for place in chosen for item in cases[place].items()} == {item for case in cases for item in case.items()}
    assert chosen == sorted(set(chosen)) == each_value(cases, seed)


def test_of_two_parameters_as_many_cases_are_chosen_as_the_longer_one_has_values() -> None:
    cases = [{"a": a, "b": b} for a in range(6) for b in range(2)]
    found = {tuple(each_value(cases, str(seed))) for seed in range(40)}
    assert {len(chosen) for chosen in found} == {6}
    assert len(found) > 10


def test_other_seeds_give_other_samples() -> None:
    tests = [Heavy(f"tests/a/test_a.py::test_{number}", 1.0, "tests/a/test_a.py") for number in range(50)]
    assert len({frozenset(sample(tests, str(seed), 0.05)) for seed in range(20)}) > 10
    assert set().union(*(sample(tests, str(seed), 0.05) for seed in range(200))) == {test.name for test in tests}


@pytest.mark.parametrize("text", ["", "3", "0/8", "9/8", "-1/8", "1/0", "a/b", "1/8/2", " 1/8", "1.5/8"])
def test_a_share_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="want I/N"):
        parse_share(text)


def test_a_share_is_read_as_it_is_written() -> None:
    assert str(parse_share("3/8")) == "3/8"


def test_a_cost_holds_for_each_case_of_a_function_unless_a_case_has_its_own() -> None:
    costs = read_costs("# seconds test\n\n1.5 tests/a.py::test_f\n 20  tests/a.py::test_f[a b]\n")
    assert [cost_of(f"tests/a.py::{name}", costs) for name in ("test_f[x]", "test_f[a b]", "test_f", "test_g[x]")] == [
        1.5,
        20,
        1.5,
        None,
    ]


@pytest.mark.parametrize(
    "line", ["1.5", "0 tests/a.py::test_f", "-1 tests/a.py::test_f", "1 a::b\n2 a::b", "nan a::b", "some a::b"]
)
def test_a_line_of_costs_that_says_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"line|float"):
        read_costs(line)


def test_the_subject_of_a_test_is_its_folder_or_the_kit() -> None:
    assert subject_of("tests/engine/test_fetch.py::test_f[1/2]") == "tests/engine"
    assert subject_of("tests/connectors/kafka/test_page.py::test_f") == "tests/connectors/kafka"
    kit = "test_conformance.py::test_the_source_passes"
    assert subject_of(f"tests/connectors/nats/{kit}") == subject_of(f"tests/connectors/kafka/{kit}") == "kit"
    assert subject_of(f"tests/sdk/python/{kit}") == "tests/sdk/python"


def test_a_cheap_test_is_taken_more_often() -> None:
    tests = [Heavy("a::cheap", 1.0, "a"), Heavy("a::dear", 9.0, "a")]
    cheap = sum(sample(tests, str(seed)) == {"a::cheap"} for seed in range(300))
    assert 200 < cheap < 300


@given(TESTS, SEEDS)
def test_a_dear_test_is_left_to_the_shares_unless_its_subject_has_no_other(tests: list[Heavy], seed: str) -> None:
    chosen = sample(tests, seed)
    for test in tests:
        if test.name in chosen and test.cost > MAX_FIRST_COST:
            kinds = [{test.subject}, *({kind} for kind in test.others)]
            alike = [[other.cost for other in tests if kind & ({other.subject} | other.others)] for kind in kinds]
            assert any(min(costs) == test.cost for costs in alike)


def test_tests_that_are_gone_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("async def test_f() -> None: ...\nTestMachine = Machine.TestCase\n")
    there = ["test_a.py::test_f[1]", "test_a.py::TestMachine::runTest"]
    names = ["test_a.py::test_g", "test_b.py::test_f", "test_a.py::test_", "test_a.py::TestOther::runTest"]
    assert gone([*there, *names], tmp_path) == names


def test_the_table_of_costs_can_be_read() -> None:
    assert all(name.startswith("tests/") and "::" in name for name in read_costs(TABLE.read_text()))


def test_what_was_left_out_is_described_by_reason_and_folder() -> None:
    left_out = [
        ("tests/a/test_a.py::test_f[1]", "heavy"),
        ("tests/a/b/test_b.py::test_g", "heavy"),
        ("tests/b/test_c.py::test_h", "heavy"),
    ]
    left_out.append(("tests/c/test_d.py::test_i", "kafka is not installed; run: make brokers ARGS=kafka"))
    heavy, folders, absent, others = describe("1a2b", left_out)
    assert "3 tests" in heavy
    assert "make test SEED=1a2b" in heavy
    assert "make test-all" in heavy
    assert folders == "  tests/a 2, tests/b 1"
    assert absent == "left out: 1 tests: kafka is not installed; run: make brokers ARGS=kafka"
    assert others == "  tests/c 1"


def test_what_was_spent_is_told_by_folder_and_dear_tests_that_lack_a_line_are_named() -> None:
    times = [("tests/a/test_a.py::test_f[1]", 6.0), ("tests/a/b/test_b.py::test_g", 7.5), ("tests/c/test_c.py::test_h", 40.0)]
    more = [("tests/d/test_d.py::test_i", 0.2), (spent.BESIDE, 9.0)]
    lines = [*spent.describe([*times, *more], {"tests/c/test_c.py::test_h": 30.0})]
    assert lines[0].startswith("processor time: 63 s")
    assert lines[1] == "  tests/c 40, tests/a 14, before and after tests 9"
    assert lines[3:] == ["6.0 tests/a/test_a.py::test_f[1]", "7.5 tests/a/b/test_b.py::test_g"]
    assert len([*spent.describe(times[2:], {"tests/c/test_c.py::test_h": 30.0})]) == 2
