"""What the page for authors in all languages quotes is what the tests run."""

import pytest
from scripts import quote_code
from tests.docs.pages import ROOT, blocks

PAGE = "docs/write/write-a-connector.md"


def test_quotes_are_current() -> None:
    assert ROOT / PAGE in quote_code.pages()
    assert not quote_code.stale(), "run scripts/quote_code.py"


def test_every_block_of_code_is_a_quote() -> None:
    text = (ROOT / PAGE).read_text()
    for language in ("go", "ts", "java", "rust"):
        for block in blocks(PAGE, language):
            assert quote_code.filled(text.replace(block.text, "")).count(block.text) == 1, block.text
    assert blocks(PAGE, "python") == [], "writing-a-source.md and writing-a-sink.md have the programs in Python"


def test_a_quote_of_what_is_not_there_is_refused() -> None:
    page = "<!-- quote: scripts/quote_code.py\ndef nowhere(\n-->\n\n```python\n```\n"
    with pytest.raises(LookupError, match="0 lines begin with 'def nowhere"):
        quote_code.filled(page)


def test_a_quote_ends_with_its_block() -> None:
    python = ["class A:", "    def one(self):", "        a()", "", "    def two(self):", "        pass"]
    assert quote_code.block(python, "def one(", "a.py") == "def one(self):\n    a()"
    go = ["// f does.", "func f() {", "\ta()", "}", "", "func g() {", "}"]
    assert quote_code.block(go, "// f", "a.go") == "// f does.\nfunc f() {\n\ta()\n}"
