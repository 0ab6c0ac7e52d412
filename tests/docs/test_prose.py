"""`make lint` finds constructions that stop a reader, where they stand, and only in prose."""

import ast

import pytest
from scripts import participles, prose
from tests.docs.pages import ROOT

PLANTED = {
    "Names are those of the message.": "those of",
    "It refuses those that\n  break a rule.": "those that",
    "It ends. What is left is dropped.": ". What is left is dropped.",
    "If it knows more, it says so.": "says so",
    "Then it goes on.": "goes on",
    "The sink is told the decision.": "is told",
    "As for sinks, nothing changes.": "As for",
    "It holds the slot for good.": "for good",
    "Only the first gateway has it.": "has it",
    "Types of columns, as a file has them.": "as a file has them",
    "The page shows what is said about it.": "what is said",
}


@pytest.mark.parametrize(("sentence", "words"), PLANTED.items())
def test_a_construction_is_found_with_its_line(sentence: str, words: str) -> None:
    found = list(prose.findings(f"# A page\n\nA sentence before.\n\n{sentence}\n"))
    assert [(line, shown) for line, shown, _ in found] == [(5, words)]


@pytest.mark.parametrize("sentence", PLANTED)
def test_code_and_comments_are_no_prose(sentence: str) -> None:
    line = sentence.replace("\n", " ")
    assert list(prose.findings(f"```\n{sentence}\n```\n\n`{line}`, <!-- {sentence} --> and more.\n")) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "A gateway that is told to stop drains.",
        "What it would add:\n\n- rows",
        "The name has italics.",
        "A session that has it opened continues.",
        "It shows what is wrong.",
    ],
)
def test_plain_sentences_are_no_findings(sentence: str) -> None:
    assert list(prose.findings(sentence)) == []


def test_a_construction_in_a_docstring_is_found_with_its_line() -> None:
    docstring = '"""Ends.\n\n    It goes on\n    until the end. As for others, those that stay are told.\n    """'
    source = f'def ends() -> None:\n    {docstring}\n    "goes on"\n'
    found = {(line, words) for line, words, _ in prose.docstring_findings(source)}
    assert found == {(4, "goes on"), (5, "As for"), (5, "those that"), (5, "are told")}


def test_a_construction_in_a_text_is_found_with_its_line_and_a_text_may_be_no_sentence() -> None:
    source = 'def left() -> str:\n    """Goes on."""\n    return "the drain goes on"\n\n\nLEFT = ""\n"""What is left."""\n'
    assert [(line, words) for line, words, _ in prose.text_findings(source)] == [(3, "goes on")]


@pytest.mark.parametrize(
    "source",
    [
        "package p;\n\n// Ends.\n// It goes on.\nmessage Goes {}\n",
        "/**\n * Ends.\n *\n * It goes on. */\nconst text = 'goes on';\n",
        "//! Ends.\n\nfn on() {\n    /// It goes on.\n}\n",
    ],
)
def test_a_construction_in_a_comment_is_found_with_its_line(source: str) -> None:
    assert [(line, words) for line, words, _ in prose.comment_findings(source)] == [(4, "goes on")]


def test_a_sentence_over_two_lines_of_a_comment_is_one() -> None:
    assert [words for _, words, _ in prose.comment_findings("x := 1\n\t// Here the sink is\n\t// told more.\n")] == ["is told"]


def test_a_comment_begins_behind_its_sign() -> None:
    assert [words for _, words, _ in prose.comment_findings("// What is left.\nrest := 1\n")] == ["What is left."]
    assert [words for _, words, _ in prose.comment_findings("/**\n * What is left.\n */\n")] == ["What is left."]
    assert [words for _, words, _ in prose.python_comment_findings("# What is left.\nrest = 1\n")] == ["What is left."]


def test_a_sentence_over_two_comments_of_a_module_is_one() -> None:
    source = 'text = "it goes on"\n\n# Here the sink is\n# told more.\nx = 1  # It has it.\n'
    assert [(line, words) for line, words, _ in prose.python_comment_findings(source)] == [(3, "is told"), (5, "has it")]


def test_a_construction_in_a_text_of_another_language_is_found_with_its_line() -> None:
    source = 'x := 1 // it "goes on" here\nlog.Info("It goes on.", name)\nerr := "What is wrong."\n'
    assert [(line, words) for line, words, _ in prose.literal_findings(source)] == [(2, "goes on")]


def test_a_text_in_code_is_no_comment() -> None:
    assert list(prose.comment_findings('url = "https://host/goes on";\n')) == []


def test_the_comments_and_the_new_projects_contain_none() -> None:
    commented = prose.commented()
    assert {path.suffix for path in commented} == {".proto", ".go", ".java", ".rs", ".ts", ".tsx"}
    found = {path.relative_to(ROOT).as_posix(): list(prose.comment_findings(path.read_text())) for path in commented}
    found |= {path.relative_to(ROOT).as_posix(): list(prose.findings(path.read_text())) for path in prose.templates()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_texts_contain_none() -> None:
    found = {path.relative_to(ROOT).as_posix(): list(prose.text_findings(path.read_text())) for path in prose.sources()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_comments_of_modules_contain_none() -> None:
    found = {path.relative_to(ROOT).as_posix(): list(prose.python_comment_findings(path.read_text())) for path in prose.sources()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_docstrings_contain_none() -> None:
    sources = prose.sources()
    assert len(sources) > 500
    found = {path.relative_to(ROOT).as_posix(): list(prose.docstring_findings(path.read_text())) for path in sources}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_docstrings_and_comments_of_tests_contain_none() -> None:
    tests = prose.tests()
    assert ROOT / "tests/docs/test_prose.py" in tests
    searches = (prose.docstring_findings, prose.python_comment_findings)
    found = {
        path.relative_to(ROOT).as_posix(): [each for search in searches for each in search(path.read_text())] for path in tests
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_pages_contain_none() -> None:
    pages = prose.pages()
    assert ROOT / "README.md" in pages
    assert ROOT / "docs/README.md" in pages
    found = {page.relative_to(ROOT).as_posix(): list(prose.findings(page.read_text())) for page in pages}
    assert {page: lines for page, lines in found.items() if lines} == {}


def test_a_name_that_is_a_participle_is_found() -> None:
    source = "told = 1\nclass Reader:\n    def kept(self, wanted, many=()):\n        self._lost = found = wanted\n"
    assert list(participles.names(ast.parse(source))) == [(1, "told"), (3, "kept"), (3, "kept(wanted)"), (4, "_lost")]


def test_every_participle_of_the_product_is_listed() -> None:
    assert sorted(participles.findings()) == sorted(participles.EXCEPTIONS.read_text().splitlines())
