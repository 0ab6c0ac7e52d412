import hashlib
import textwrap
import tomllib
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.gateway.certificates import Authority, locked

from headrace.configuration import ConfigurationError, Flag, key_lines
from headrace.gateway import Config, Http, Limits, load_config, redacted_toml

DIGEST = hashlib.sha256(b"s3cret").hexdigest()


def write(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    return path


def problems(path: Path | None, **kwargs: object) -> list[str]:
    """The problems of a file, without its folder."""
    with pytest.raises(ConfigurationError) as caught:
        load_config(path, **kwargs)  # type: ignore[arg-type]
    return [line.replace(f"{path.parent}/", "") if path else line for line in str(caught.value).splitlines()]


def test_defaults_need_no_file() -> None:
    assert load_config() == Config()
    assert load_config().listen == "127.0.0.1:7433"


def test_every_setting_can_be_written_in_a_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"""
        listen = "127.0.0.1:0"

        [limits]
        buffer_bytes = "64MiB"
        max_frame_bytes = 1048576
        max_sessions = 10

        [[streams]]
        pattern = "orders/*"
        pipelines = ["totals", "archive"]

        [[tokens]]
        name = "orders"
        sha256 = "{DIGEST}"
        sources = ["orders/*"]

        [log]
        format = "json"
        level = "debug"
        """,
    )

    config = load_config(path)

    assert config.limits == Limits(buffer_bytes=64 * 2**20, max_frame_bytes=2**20, max_sessions=10)
    assert config.streams[0].pipelines == ("totals", "archive")
    assert config.tokens[0].sources == ("orders/*",)
    assert config.log.format == "json"


def test_each_problem_names_file_line_and_key(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        listen = "localhost"
        buffer_bytes = "1MiB"

        [limits]
        bufer_bytes = "64MiB"
        max_sessions = "many"
        max_frame_bytes = "4 XB"

        [[streams]]
        pattern = "orders/*"
        pipelines = [
          "totals",
          "a b",
        ]
        [[streams]]
        pattern = "orders"

        [log]
        format = "jsn"
        """,
    )

    assert problems(path) == [
        "gateway.toml:1: listen: 'localhost' is not host:port; write for instance 127.0.0.1:7433, 0.0.0.0:7433 or [::1]:7433",
        "gateway.toml:2: buffer_bytes: unknown key; did you mean limits.buffer_bytes?",
        "gateway.toml:5: limits.bufer_bytes: unknown key; did you mean buffer_bytes?",
        "gateway.toml:6: limits.max_sessions: must be a whole number",
        "gateway.toml:7: limits.max_frame_bytes: '4 XB' is not a size; "
        "write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024",
        "gateway.toml:13: streams[0].pipelines[1]: 'a b' is not a name or pattern: letters, digits and ._-* only",
        "gateway.toml:15: streams[1].pipelines: is required",
        "gateway.toml:16: streams[1].pattern: 'orders' is not a stream pattern; write source/partition, "
        "for instance orders/* or orders/0",
        "gateway.toml:19: log.format: must be 'auto', 'json' or 'console'; did you mean json?",
    ]


def test_a_file_that_is_not_toml_names_the_line(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "listen = \n")) == ["gateway.toml:1: not valid TOML: Invalid value"]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.toml") == ["none.toml: cannot be read: No such file or directory"]


def test_variables_are_taken_from_the_environment(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        listen = "${HOST:-127.0.0.1}:${PORT}"
        [limits]
        max_sessions = "${SESSIONS:-7}"
        """,
    )

    config = load_config(path, environ={"PORT": "9000"})

    assert config.listen == "127.0.0.1:9000"
    assert config.limits.max_sessions == 7
    assert problems(path, environ={}) == [
        "gateway.toml:1: listen: the environment variable PORT is not set; set it, or write ${PORT:-default}"
    ]


def test_flags_win_over_the_file_and_are_named_where_they_are_wrong(tmp_path: Path) -> None:
    path = write(tmp_path, "[limits]\nbuffer_bytes = 'nonsense'\nmax_sessions = 5\n")

    config = load_config(
        path, {("limits", "buffer_bytes"): Flag("--buffer-bytes", "2MiB"), ("limits", "max_frame_bytes"): Flag("", 2048)}
    )

    assert config.limits == Limits(buffer_bytes=2 * 2**20, max_frame_bytes=2048, max_sessions=5)
    wrong = {("limits", "buffer_bytes"): Flag("--buffer-bytes", "2 apples")}
    assert problems(path, flags=wrong) == [
        "--buffer-bytes: '2 apples' is not a size; write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024"
    ]


def test_a_frame_must_fit_in_the_buffer(tmp_path: Path) -> None:
    path = write(tmp_path, "[limits]\nbuffer_bytes = '2MiB'\nmax_frame_bytes = '3MiB'\n")

    assert problems(path) == [
        "gateway.toml:3: limits.max_frame_bytes: 3mb is more than three quarters of limits.buffer_bytes = 2mb"
    ]


@pytest.mark.parametrize("listen", ["0.0.0.0:7433", "[::]:7433", "10.0.0.1:7433", "gateway.example:7433"])
def test_listening_in_the_clear_where_others_reach_it_is_refused(tmp_path: Path, listen: str) -> None:
    path = write(tmp_path, f'listen = "{listen}"')

    (problem,) = problems(path)

    assert problem.startswith(f"gateway.toml:1: listen: {listen} can be reached from other machines, and without TLS messages")
    assert load_config(path, {("insecure",): Flag("--insecure", True)}).listen == listen


@pytest.mark.parametrize("listen", ["127.0.0.1:7433", "[::1]:7433", "localhost:7433", "127.3.2.1:0"])
def test_loopback_needs_no_security(listen: str) -> None:
    assert load_config(None, {("listen",): Flag("--listen", listen)}).listen == listen


def test_tokens_in_the_clear_are_refused_too(tmp_path: Path) -> None:
    path = write(tmp_path, f'listen = "0.0.0.0:1"\n[[tokens]]\nname = "a"\nsha256 = "{DIGEST}"\n')

    assert "without TLS tokens and messages travel in the clear" in problems(path)[0]


def test_tls_permits_every_address(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").issue("gateway")
    path = write(tmp_path, 'listen = "0.0.0.0:7433"\n[tls]\ncert = "gateway.pem"\nkey = "gateway.key"\nclient_ca = "ca.pem"\n')

    config = load_config(path)

    assert config.tls is not None
    assert (config.tls.cert, config.tls.key) == (pair.cert, pair.key)


def test_unusable_tls_files_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    authority.issue("gateway")
    authority.issue("other")
    locked(authority.issue("locked"), b"secret")
    (tmp_path / "text.pem").write_text("not a certificate")

    def tls(cert: str, key: str, client_ca: str = "ca.pem") -> list[str]:
        text = f'[tls]\ncert = "{cert}"\nkey = "{key}"\nclient_ca = "{client_ca}"\n'
        return [problem.replace(f"{tmp_path}/", "") for problem in problems(write(tmp_path, text))]

    assert tls("gateway.pem", "other.key") == ["gateway.toml:3: tls.key: other.key is not the key of the certificate gateway.pem"]
    assert tls("text.pem", "gateway.key") == ["gateway.toml:2: tls.cert: text.pem contains no PEM certificate"]
    assert tls("gateway.pem", "text.pem") == ["gateway.toml:3: tls.key: text.pem contains no PEM key"]
    assert tls("text.pem", "text.pem", "text.pem") == [
        "gateway.toml:2: tls.cert: text.pem contains no PEM certificate",
        "gateway.toml:4: tls.client_ca: text.pem contains no PEM certificate",
    ]
    assert tls("locked.pem", "locked.key")[0].startswith("gateway.toml:3: tls.key: locked.key: the key is encrypted")
    assert tls("gateway.pem", "gateway.key", "text.pem") == [
        "gateway.toml:4: tls.client_ca: text.pem contains no PEM certificate"
    ]
    assert tls("none.pem", "gateway.key") == ["gateway.toml:2: tls.cert: there is no file 'none.pem'"]
    assert problems(write(tmp_path, '[tls]\ncert = "gateway.pem"\n')) == ["gateway.toml:1: tls.key: is required"]


def test_a_token_is_a_digest_or_a_reference_never_a_secret(tmp_path: Path) -> None:
    by_reference = write(tmp_path, '[[tokens]]\nname = "a"\ntoken = "${SECRET}"\n')
    assert load_config(by_reference, environ={"SECRET": "s3cret"}).tokens[0].sha256 == (DIGEST,)
    assert problems(by_reference, environ={}) == ["gateway.toml:3: tokens[0].token: the environment variable SECRET is not set"]

    literal = write(tmp_path, '[[tokens]]\nname = "a"\ntoken = "s3cret"\n')
    assert problems(literal) == [
        'gateway.toml:3: tokens[0].token: write token = "${VARIABLE}": the file must not contain secrets'
    ]
    neither = write(tmp_path, '[[tokens]]\nname = "a"\n')
    assert "tokens[0]: needs sha256" in problems(neither)[0]
    short = write(tmp_path, '[[tokens]]\nname = "a"\nsha256 = "abc"\n')
    assert "must be 64 hexadecimal digits" in problems(short)[0]


def test_two_tokens_must_differ(tmp_path: Path) -> None:
    tokens = "".join(f'[[tokens]]\nname = "{name}"\nsha256 = "{DIGEST}"\n' for name in ("a", "b"))

    assert problems(write(tmp_path, tokens)) == ["gateway.toml:1: tokens: two tokens have the same sha256"]


def test_the_printed_configuration_can_be_read_again_and_hides_secrets(tmp_path: Path) -> None:
    text = f'[[streams]]\npattern = "a/*"\npipelines = ["p"]\n[[tokens]]\nname = "x"\nsha256 = "{DIGEST}"\nsources = ["a/*"]\n'
    config = load_config(write(tmp_path, text))

    printed = redacted_toml(config)

    assert DIGEST not in printed
    assert load_config(write(tmp_path, printed.replace("(hidden)", DIGEST))) == config


def test_lines_of_keys_in_all_of_tomls_forms() -> None:
    document = textwrap.dedent(
        '''\
        # a comment with [brackets] and x = 1
        plain = 1
        "quo.ted" = "a # b"
        dotted . 'key'.x = true
        text = """
        [not.a.table]
        fake = 1 \\"""
        """
        raw = \'\'\'
        fake = 2
        \'\'\'
        list = [ 1, # one
          [2,
           3], {a = 4, b.c = "}"},
        ]
        when = 1979-05-27 07:32:00
        [table]
        key = 1
        [[array]]
        key = 1
        [array.inner]
        key = 2
        [[array]]
        key = 3
        [[array.nested]]
        key = 4
        '''
    )
    tomllib.loads(document)

    assert key_lines(document) == {
        ("plain",): 2,
        ("quo.ted",): 3,
        ("dotted",): 4,
        ("dotted", "key"): 4,
        ("dotted", "key", "x"): 4,
        ("text",): 5,
        ("raw",): 9,
        ("list",): 12,
        ("list", 0): 12,
        ("list", 1): 13,
        ("list", 1, 0): 13,
        ("list", 1, 1): 14,
        ("list", 2): 14,
        ("list", 2, "a"): 14,
        ("list", 2, "b"): 14,
        ("list", 2, "b", "c"): 14,
        ("when",): 16,
        ("table",): 17,
        ("table", "key"): 18,
        ("array",): 19,
        ("array", 0): 19,
        ("array", 0, "key"): 20,
        ("array", 0, "inner"): 21,
        ("array", 0, "inner", "key"): 22,
        ("array", 1): 23,
        ("array", 1, "key"): 24,
        ("array", 1, "nested"): 25,
        ("array", 1, "nested", 0): 25,
        ("array", 1, "nested", 0, "key"): 26,
    }


_VALUES = st.sampled_from(
    ["1", '"a"', "'b'", '""', "''", '"""\n[x]\n"""', "[1, [2]]", "{a = 1, b = [2]}", "1.5", "1979-05-27", '"\\""']
)


@for_all(st.lists(st.tuples(_VALUES, st.sampled_from(["", " # = [c]", "\n\n", "  "])), max_size=12))
def test_every_key_is_found_on_its_line(values: list[tuple[str, str]]) -> None:
    document = "".join(f"key{index} = {value}{rest}\n" for index, (value, rest) in enumerate(values))
    tomllib.loads(document)
    lines = key_lines(document)

    for index in range(len(values)):
        assert document.splitlines()[lines[(f"key{index}",)] - 1].startswith(f"key{index} =")


@pytest.mark.parametrize("key", ["prometheus_url", "spark_url"])
@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "prometheus:9090", "https://", "https://a b/", "//host/"]
)
def test_the_console_leads_only_to_pages(key: str, url: str) -> None:
    with pytest.raises(ValidationError, match="not the address of a page"):
        Http(**{key: url})  # type: ignore[arg-type]
    assert getattr(Http(**{key: "https://prometheus.example:9090/graph?g0=1"}), key)  # type: ignore[arg-type]
