"""YAML: what a study file means, and the line number of every mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from genmix.study.parsing import parse_study_file
from genmix.study.study import (
    StudyError,
    read_study,
)
from tests.support.studies import (
    SMALL,
    problems_in,
    read,
    with_line,
)


@pytest.mark.parametrize(
    "word", ["yes", "no", "on", "off", "Y", "n", "1:30", "0o17", "0x1F", "2024-01-01"]
)
def test_words_that_older_yaml_reads_as_something_else_are_text(tmp_path: Path, word: str) -> None:
    arms = f"arms: {{{word}: {{kind: recorded, path: {word}}}}}"
    study = read(tmp_path, with_line(arms))
    assert list(study.arms) == [word]
    assert study.arms[word].model_dump()["path"] == word


@pytest.mark.parametrize(
    "written, number",
    [
        ("1e3", 1000),
        ('"1e3"', 1000),
        ("010", 10),
        ("1.5e+2", 150),
        ("'200'", 200),
        ("'9007199254740993'", 2**53 + 1),
    ],
)
def test_numbers_are_decimal(tmp_path: Path, written: str, number: int) -> None:
    assert read(tmp_path, with_line(f"seed: {written}")).seed == number


@pytest.mark.parametrize(
    "written, seconds",
    [
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("'45'", 45),
    ],
)
def test_times_have_units(tmp_path: Path, written: str, seconds: float) -> None:
    assert read(tmp_path, with_line(f"budget: {{time: {written}}}")).budget.time == seconds


def test_true_and_false_are_the_booleans(tmp_path: Path) -> None:
    arm = "{kind: recorded, path: x.npz, shuffle: %s}"
    for word, value in {"true": True, "FALSE": False, "no": False}.items():
        study = read(tmp_path, with_line("arms: {a: " + arm % word + "}"))
        assert study.arms["a"].model_dump()["shuffle"] is value


def test_own_keys_and_earlier_merges_take_precedence(tmp_path: Path) -> None:
    text = """\
        a: &a {x: 1, y: 1}
        b: &b {y: 2, z: 2}
        c: {<<: [*a, *b], z: 3}
        d: *a
        """
    path = tmp_path / "merge.yaml"
    path.write_text(text)
    source = parse_study_file(path)
    assert source.data["c"] == {"z": 3, "x": 1, "y": 1}
    assert source.data["d"] == {"x": 1, "y": 1}
    assert source.positions["c", "y"].line == source.positions["d", "y"].line == 1
    assert source.positions["c", "z"] == (3, 27)
    assert source.position(("c", "unknown")).line == 3


def test_an_anchor_can_be_redefined(tmp_path: Path) -> None:
    path = tmp_path / "anchors.yaml"
    path.write_text("a: &x 1\nb: *x\nc: &x 2\nd: *x\n")
    assert parse_study_file(path).data == {"a": 1, "b": 1, "c": 2, "d": 2}


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGES = "m0: &m0 {k0: 0}\n" + "".join(
    f"m{i}: &m{i} {{<<: *m{i - 1}, k{i}: 0}}\n" for i in range(1, 1000)
)
TOO_LARGE = "the study expands to more than 100000 values; use fewer aliases and merges."

BAD_YAML: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["study.yaml is empty; write an example with 'genmix init'."]),
    "only a comment": (
        "# nothing\n",
        ["study.yaml is empty; write an example with 'genmix init'."],
    ),
    "null": ("null\n", ["study.yaml is empty; write an example with 'genmix init'."]),
    "a list": (
        "\n- vendi\n",
        ["study.yaml, line 2: the study is a list; write keys and values, e.g. 'seed: 0'."],
    ),
    "a text": (
        "vendi",
        ["study.yaml, line 1: the study is text; write keys and values, e.g. 'seed: 0'."],
    ),
    "a tab": (
        "arms:\n\tone: 1\n",
        [
            "study.yaml, line 2: this is not valid YAML (found character '\\t' that cannot start any "
            "token); indent with spaces, not with tabs."
        ],
    ),
    "a tag": (
        "seed: !!python/object/apply:os.system [ls]\n",
        [
            "study.yaml, line 1: the tag tag:yaml.org,2002:python/object/apply:os.system is not "
            "allowed; remove it."
        ],
    ),
    "harmless tags, too": (
        "seed: !!int 3\nname: !x y\n",
        [
            "study.yaml, line 1: the tag tag:yaml.org,2002:int is not allowed; remove it.",
            "study.yaml, line 2: the tag !x is not allowed; remove it.",
        ],
    ),
    "duplicate keys": (
        "seed: 1\narms:\n  a: {x: 1, x: 2}\nseed: 2\n",
        [
            "study.yaml, line 3: the key 'x' is already on line 3; remove one of them.",
            "study.yaml, line 4: the key 'seed' is already on line 1; remove one of them.",
        ],
    ),
    "keys that are not text": (
        "1: a\n2.5: b\ntrue: c\n? [x]\n: d\n? {y: z}\n: e\n~: f\n",
        [
            "study.yaml, line 1: the key 1 is not text; put it in quotes: '1'.",
            "study.yaml, line 2: the key 2.5 is not text; put it in quotes: '2.5'.",
            "study.yaml, line 3: the key true is not text; put it in quotes: 'true'.",
            "study.yaml, line 4: a key is a list; use text.",
            "study.yaml, line 6: a key is a mapping; use text.",
            "study.yaml, line 8: a key is empty; write a key before the colon.",
        ],
    ),
    "numbers out of range": (
        "a: .nan\nb: -.inf\nc: 1e999\nd: 9223372036854775808\ne: " + "9" * 5000,
        [
            f"study.yaml, line {line}: {shown} is out of range; use a finite number "
            "below 9.2e18 (or the word inf for an infinite order)."
            for line, shown in enumerate(
                [".nan", "-.inf", "1e999", "9223372036854775808", "9" * 40], 1
            )
        ],
    ),
    "an alias bomb": (BOMB, [f"study.yaml, line 1: {TOO_LARGE}"]),
    "a merge bomb": (MERGES, [f"study.yaml, line 128: {TOO_LARGE}"]),
    "an alias inside its own list": (
        "arms: &a [*a]\n",
        [
            "study.yaml, line 1: *a is used, but &a is not defined above it; define it, or quote the text."
        ],
    ),
    "an alias of its own mapping": (
        "arms: &a {x: {y: *a}}\n",
        [
            "study.yaml, line 1: *a is used, but &a is not defined above it; define it, or quote the text."
        ],
    ),
    "an unknown alias": (
        "prompt: *bold* text\n",
        [
            "study.yaml, line 1: this is not valid YAML (expected alphabetic or numeric character, but "
            "found '*'); correct this line."
        ],
    ),
    "a merge of a number": (
        "a: &a 5\nb: {<<: *a}\n",
        ["study.yaml, line 2: << needs a mapping; write an alias for one, e.g. *name."],
    ),
    "too deep": (
        "a: " + "[" * 60 + "]" * 60,
        ["study.yaml, line 1: values are nested more than 50 levels deep; use fewer levels."],
    ),
    "far too deep": (
        "a: " + "[" * 20000,
        ["study.yaml, line 1: values are nested more than 50 levels deep; use fewer levels."],
    ),
    "two documents": (
        "seed: 1\n---\nseed: 2\n",
        [
            "study.yaml, line 2: a second document begins here, but a study is a single document; "
            "remove the '---'."
        ],
    ),
    "a colon in a text": (
        "name: my: study\n",
        [
            "study.yaml, line 1: this is not valid YAML (mapping values are not allowed here); put text "
            "that contains a colon in quotes."
        ],
    ),
    "no colon": (
        "seed: 1\narms\nbudget: 2\n",
        [
            "study.yaml, line 3: this is not valid YAML (could not find expected ':'); write 'key: "
            "value', with a space after the colon."
        ],
    ),
    "an open quote": (
        'name: "city\nseed: 1\n',
        [
            "study.yaml, line 3: this is not valid YAML (found unexpected end of stream); close the "
            "quote."
        ],
    ),
    "an open bracket": (
        "a: [1, 2\nb: 3\n",
        [
            "study.yaml, line 2: this is not valid YAML (expected ',' or ']', but got ':'); close the "
            "bracket, or separate its values with commas."
        ],
    ),
    "bad indentation": (
        "a:\n    b: 1\n  c: 2\n",
        [
            "study.yaml, line 3: this is not valid YAML (expected <block end>, but found '<block "
            "mapping start>'); indent the line like the other lines of its block."
        ],
    ),
    "a reserved character": (
        "name: @city\n",
        [
            "study.yaml, line 1: this is not valid YAML (found character '@' that cannot start any "
            "token); put text that begins with this character in quotes."
        ],
    ),
    "an unknown escape": (
        'path: "C:\\data"\n',
        [
            "study.yaml, line 1: this is not valid YAML (found unknown escape character 'd'); double "
            "the backslash, or use single quotes."
        ],
    ),
    "an impossible escape": (
        'a: "\\U0001F600"\nb: "\\UFFFFFFFF"\n',
        [
            "study.yaml, line 2: an escape sequence is not a valid character; correct the text after "
            "the backslash."
        ],
    ),
    "a control character": (
        "seed: 1\nname: a\x07b\n",
        ["study.yaml, line 2: the character 0x7 is not allowed; remove it."],
    ),
    "not UTF-8": (
        b"seed: 1\nname: caf\xe9\n",
        ["study.yaml, line 2: this is not UTF-8 text; save it as UTF-8."],
    ),
    "UTF-16": (
        "seed: 1\n".encode("utf-16"),
        ["study.yaml, line 1: this is not UTF-8 text; save it as UTF-8."],
    ),
    "too large": (
        b"#" * (2**20 + 1),
        [
            "study.yaml has 1048577 bytes; keep a study below 1048576 bytes and put long lists in "
            "separate files."
        ],
    ),
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_bad_yaml_gets_a_sentence_with_its_line(tmp_path: Path, case: str) -> None:
    text, expected = BAD_YAML[case]
    assert problems_in(tmp_path, text) == expected


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        read_study(tmp_path / "none.yaml")
    assert str(caught.value) == (
        f"no study found at {tmp_path}/none.yaml; check the path, or write an example with 'genmix init'."
    )
    with pytest.raises(StudyError) as caught:
        read_study(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} contains no study.yaml; pass a study file, or write an example with "
        f"'genmix init {tmp_path}'."
    )
    with pytest.raises(StudyError, match="cannot read"):
        read_study("a\0b")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    text = "\ufeff" + SMALL.replace("\n", "\r\n")
    assert list(read(tmp_path, text).arms) == ["one", "two"]


def test_characters_that_no_file_can_hold_are_rejected(tmp_path: Path) -> None:
    arms = 'arms: {a: {kind: recorded, path: "x\\0"}, b: {kind: recorded, path: "\\ud800"}}'
    assert problems_in(tmp_path, with_line(arms)) == [
        "study.yaml, line 3: path of arm 'a' contains a character that a file cannot contain; remove it.",
        "study.yaml, line 3: path of arm 'b' contains a character that a file cannot contain; remove it.",
    ]
