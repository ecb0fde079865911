"""The study file: what it may hold, and what a person is told about every mistake in it."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import genmix as gx
from genmix.core.text import listed
from genmix.encoders import ENCODER_KINDS
from genmix.errors import InputError
from genmix.generators import ARM_KINDS
from genmix.generators.base import ArmSettings
from genmix.study.components import (
    KERNELS,
    OBJECTIVES,
    POLICIES,
    make_objective,
    make_policy,
    reference_paths,
)
from genmix.study.messages import kinds_of
from genmix.study.parsing import parse_study_file
from genmix.study.study import (
    Budget,
    Retries,
    StopWhen,
    Study,
    StudyError,
    json_schema,
    read_study,
    study_from,
)
from genmix.study.template import EXAMPLE, write_example

SMALL = """\
arms:
  one: {kind: callable, function: "arms:make"}
  two: {kind: callable, function: "arms:make"}
objective: vendi
budget: {samples: 200}
"""

FULL = """\
name: city
seed: 3
arms:
  smol: &smol
    kind: openai
    model: smollm2
    base_url: http://127.0.0.1:8081/v1
    prompt: "Write a short sentence."
    concurrency: 2
    batch: 3
    variants:
      plain:
      cold: {temperature: 0.5, max_tokens: 1e2}
  big:
    <<: *smol
    model: other
    batch: 2
    variants: {hot: {temperature: 1.5}}
  mine: {kind: callable, function: "arms:make", arguments: {cities: [a, b]}}
encoder: {kind: callable, function: "arms:embed", normalise: true}
objective:
  - vendi: {order: 2, kernel: {gaussian: {bandwidth: 20, features: 512}}}
  - precision: {k: 4, weight: 0.3}
  - kernel-distance: {kernel: polynomial, unbiased: true, reference: other.npz}
  - cost: {weight: 0.1}
reference: real.npz
policy: {fixed: {weights: {smol/plain: 0.5, mine: 0.5}}}
budget: {samples: 200, cost: 1.50, time: 30m}
warm_start: 12
draw: tracking
resolve_growth: 0.02
in_flight: 8
retries: {attempts: 4, first_wait: 2, longest_wait: 1m, suspend_after: 2, probe_after: 1h 30m, timeout: 90s}
stop_when: {weights_within: 0.01, score_within: 0.02, over: 100}
"""

KINDS = [kind for settings in ARM_KINDS for kind in kinds_of(settings)]
ENCODERS = [kind for settings in ENCODER_KINDS for kind in kinds_of(settings)]


def read(folder: Path, text: str | bytes) -> Study:
    path = folder / "study.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return read_study(path)


def problems_in(folder: Path, text: str | bytes) -> list[str]:
    """What is said about a study, each a sentence that fits a terminal, without the folder."""
    with pytest.raises(StudyError) as caught:
        read(folder, text)
    problems = list(caught.value.problems)
    assert str(caught.value) == "\n".join(problems)
    for problem in problems:
        assert re.search(r"[.?]$", problem), problem
        assert "\n" not in problem, problem
        assert len(problem) < 500, problem
    return [problem.replace(f"{folder}/", "") for problem in problems]


def with_line(line: str, text: str = SMALL) -> str:
    """The small study with one key more, or replaced; a key that is replaced stands last."""
    key = line.split(":")[0]
    kept = re.sub(rf"(?m)^{key}:.*\n(?:  .*\n)*", "", text)
    return f"{kept}{line}\n"


# -- good studies ------------------------------------------------------------------------------------


def test_a_full_study_is_read(tmp_path: Path) -> None:
    study = read(tmp_path, FULL)
    assert (study.name, study.seed, study.reference) == ("city", 3, "real.npz")
    assert list(study.arms) == ["smol/plain", "smol/cold", "big/hot", "mine"]
    cold, hot = study.arms["smol/cold"].model_dump(), study.arms["big/hot"].model_dump()
    assert (cold["model"], cold["temperature"], cold["max_tokens"]) == ("smollm2", 0.5, 100)
    assert (hot["model"], hot["temperature"], hot["batch"]) == ("other", 1.5, 2)
    assert hot["prompt"] == "Write a short sentence."
    assert [(term.kind, term.weight) for term in study.objective] == [
        ("vendi", 1.0),
        ("precision", 0.3),
        ("kernel-distance", 1.0),
        ("cost", 0.1),
    ]
    assert study.policy.kind == "fixed"
    assert (study.budget.samples, study.budget.cost, study.budget.time) == (200, 1.5, 1800)
    assert (study.warm_start, study.draw, study.resolve_growth) == (12, "tracking", 0.02)
    assert study.in_flight == 8
    assert study.retries.model_dump() == {
        "attempts": 4,
        "first_wait": 2,
        "longest_wait": 60,
        "suspend_after": 2,
        "probe_after": 5400,
        "timeout": 90,
        "give_up": 600,
    }
    assert study.stop_when is not None
    assert study.stop_when.model_dump() == {
        "weights_within": 0.01,
        "score_within": 0.02,
        "over": 100,
    }


def test_a_small_study_has_defaults(tmp_path: Path) -> None:
    study = read(tmp_path, SMALL)
    assert (study.name, study.seed, study.encoder, study.reference) == ("study", 0, None, None)
    assert (study.policy.kind, study.warm_start, study.draw) == ("mixture-greedy", 10, "iid")
    assert (study.resolve_growth, study.in_flight, study.stop_when) == (0.01, 1, None)
    retries = study.retries
    assert (retries.attempts, retries.first_wait, retries.longest_wait) == (5, 1.0, 60.0)
    assert (retries.suspend_after, retries.probe_after) == (3, 60.0)
    assert (retries.timeout, retries.give_up) == (300.0, 600.0)


def test_the_name_comes_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my study (2).yaml"
    path.write_text(SMALL)
    assert read_study(path).name == "my-study-2"


def test_in_flight_is_the_largest_arm_unless_given(tmp_path: Path) -> None:
    text = SMALL.replace('one: {kind: callable, function: "arms:make"}', "one: {kind: callable, "
                         'function: "arms:make", concurrency: 3, batch: 4}')  # fmt: skip
    assert read(tmp_path, text).in_flight == 12


@pytest.mark.parametrize("text", [SMALL, FULL, EXAMPLE])
def test_a_study_survives_being_written_as_json(tmp_path: Path, text: str) -> None:
    study = read(tmp_path, text)
    again = study_from(json.loads(json.dumps(study.plain(), allow_nan=False)))
    assert again == study
    assert again.plain() == study.plain()


def test_a_study_cannot_be_changed(tmp_path: Path) -> None:
    study = read(tmp_path, SMALL)
    with pytest.raises(ValueError, match="frozen"):
        study.seed = 5  # type: ignore[misc]


def test_python_values_are_taken_as_plain_data(tmp_path: Path) -> None:
    study = study_from(
        {
            "arms": {"a": {"kind": "recorded", "path": Path("x.npz"), "cost": np.float64(0.5)}},
            "objective": ("frechet-distance",),
            "reference": Path("real.npz"),
            "budget": {"samples": np.int64(50)},
        }
    )
    assert study.plain()["arms"]["a"]["path"] == "x.npz"
    assert (study.budget.samples, study.reference, study.name) == (50, "real.npz", "study")


# -- YAML 1.2 ----------------------------------------------------------------------------------------


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


def test_a_merged_key_yields_to_the_own_one_and_the_first(tmp_path: Path) -> None:
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
TOO_MUCH = "the study expands to more than 100000 values; use fewer aliases and merges."

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
    "keys that are no text": (
        "1: a\n2.5: b\ntrue: c\n? [x]\n: d\n? {y: z}\n: e\n~: f\n",
        [
            "study.yaml, line 1: the key 1 is not text; put it in quotes: '1'.",
            "study.yaml, line 2: the key 2.5 is not text; put it in quotes: '2.5'.",
            "study.yaml, line 3: the key true is not text; put it in quotes: 'true'.",
            "study.yaml, line 4: a key is a list; use text.",
            "study.yaml, line 6: a key is a mapping; use text.",
            "study.yaml, line 8: a key is empty; write it before the colon.",
        ],
    ),
    "numbers that are none": (
        "a: .nan\nb: -.inf\nc: 1e999\nd: 9223372036854775808\ne: " + "9" * 5000,
        [
            f"study.yaml, line {line}: {shown} is out of range; use a finite number "
            "below 9.2e18 (or the word inf for an infinite order)."
            for line, shown in enumerate(
                [".nan", "-.inf", "1e999", "9223372036854775808", "9" * 40], 1
            )
        ],
    ),
    "an alias bomb": (BOMB, [f"study.yaml, line 1: {TOO_MUCH}"]),
    "a merge bomb": (MERGES, [f"study.yaml, line 128: {TOO_MUCH}"]),
    "an alias of itself": (
        "arms: &a [*a]\n",
        ["study.yaml, line 1: *a refers to no &a above it; define it, or put the text in quotes."],
    ),
    "an alias of its own mapping": (
        "arms: &a {x: {y: *a}}\n",
        ["study.yaml, line 1: *a refers to no &a above it; define it, or put the text in quotes."],
    ),
    "an unknown alias": (
        "prompt: *bold* text\n",
        [
            "study.yaml, line 1: this is not valid YAML (expected alphabetic or numeric character, but "
            "found '*'); correct this line."
        ],
    ),
    "a merge of no map": (
        "a: &a 5\nb: {<<: *a}\n",
        ["study.yaml, line 2: << needs a mapping; write *name of one."],
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
            "study.yaml, line 2: a second document begins here; a study is one document, so remove the '---'."
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
            "mapping start>'); indent it like the other lines of its block."
        ],
    ),
    "a reserved character": (
        "name: @city\n",
        [
            "study.yaml, line 1: this is not valid YAML (found character '@' that cannot start any "
            "token); put text that begins with it in quotes."
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
            "study.yaml, line 2: an escaped character does not exist; correct what follows the "
            "backslash."
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
        f"there is no study {tmp_path}/none.yaml; check the path, or write an example with 'genmix init'."
    )
    with pytest.raises(StudyError) as caught:
        read_study(tmp_path)
    assert str(caught.value) == f"cannot read {tmp_path} (it is a folder); pass a study file."
    with pytest.raises(StudyError, match="cannot read"):
        read_study("a\0b")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    text = "\ufeff" + SMALL.replace("\n", "\r\n")
    assert list(read(tmp_path, text).arms) == ["one", "two"]


def test_characters_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    arms = 'arms: {a: {kind: recorded, path: "x\\0"}, b: {kind: recorded, path: "\\ud800"}}'
    assert problems_in(tmp_path, with_line(arms)) == [
        "study.yaml, line 3: path of arm 'a' contains a character that no file can hold; remove it.",
        "study.yaml, line 3: path of arm 'b' contains a character that no file can hold; remove it.",
    ]


# -- settings ----------------------------------------------------------------------------------------

ARM = "arms: {smol: {kind: openai, model: m, base_url: 'http://x/v1', prompt: p, %s}}"
KEYS = {
    kind: [*settings.model_fields, "variants"]
    for settings in ARM_KINDS
    for kind in kinds_of(settings)
}
SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
ADVICE = "put it in an environment variable and set api_key_env to the variable's name."
NO_NAME = (
    "is not the name of an environment variable; write the NAME of the variable that holds the "
    "secret, e.g. OPENAI_API_KEY."
)
NO_SECRETS = f"a secret does not belong in a study; {ADVICE}"
HOLDS_SECRET = f"contains what looks like a secret, which does not belong in a study; {ADVICE}"
LOOKS_SECRET = f"looks like a secret, which does not belong in a study; {ADVICE}"


def purpose(kinds: Any, kind: str, key: str) -> str:
    """What a key is for, as error messages say it."""
    settings = next(each for each in kinds if kind in kinds_of(each))
    words = settings.model_fields[key].description
    return (words[0].lower() + words[1:]).rstrip(".")


def said_by(function: Any, *args: Any, **kwargs: Any) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(InputError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


BAD_SETTINGS: list[tuple[str, str]] = [
    # keys
    (
        ARM % "temprature: 1",
        "unknown key 'temprature' in arm 'smol'; did you mean 'temperature'?",
    ),
    (
        "arms: {a: {kind: recorded, path: x, zzz: 1}}",
        f"unknown key 'zzz' in arm 'a'; the keys are {listed(KEYS['recorded'])}.",
    ),
    ("budjet: {samples: 3}", "unknown key 'budjet' in the study; did you mean 'budget'?"),
    ("budget: {sample: 3}", "unknown key 'sample' in budget; did you mean 'samples'?"),
    (
        "retries: {atempts: 3}",
        "unknown key 'atempts' in retries; did you mean 'attempts'?",
    ),
    (
        "arms: {a: {kind: recorded, path: x, varriants: {}}}",
        "unknown key 'varriants' in arm 'a'; did you mean 'variants'?",
    ),
    # missing keys
    (
        "arms: {a: {kind: recorded}}",
        f"arm 'a' has no 'path'; add it ({purpose(ARM_KINDS, 'recorded', 'path')}).",
    ),
    (
        "encoder: {kind: sentence-transformers}",
        "the encoder has no 'model'; add it "
        f"({purpose(ENCODER_KINDS, 'sentence-transformers', 'model')}).",
    ),
    # kinds
    ("arms: {a: {path: x}}", f"arm 'a' has no 'kind'; use one of {listed(KINDS, 'or')}."),
    (
        "arms: {a: {kind: opnai}}",
        "unknown kind 'opnai' in arm 'a'; did you mean 'openai' "
        f"(or {listed([kind for kind in KINDS if kind != 'openai'], 'or')})?",
    ),
    (
        "arms: {a: {kind: [1]}}",
        f"unknown kind a list in arm 'a'; use one of {listed(KINDS, 'or')}.",
    ),
    (
        "encoder: {kind: qqqqqq}",
        f"unknown kind 'qqqqqq' in the encoder; use one of {listed(ENCODERS, 'or')}.",
    ),
    # arms
    ("arms: {}", "arms is empty; use at least one entry."),
    ("arms:", "arms is empty; use a mapping of keys and values."),
    ("arms: [a, b]", "arms is a list; use a mapping of keys and values."),
    ("arms: {a: 5}", "arm 'a' is 5; use a mapping of keys and values."),
    ("arms: {a: }", "arm 'a' is empty; use a mapping of keys and values."),
    (
        "arms: {' ': {kind: recorded, path: x}}",
        "arm ' ': the label is empty; write a name.",
    ),
    (
        'arms: {"a\\nb": {kind: recorded, path: x}}',
        "arm 'a\\nb': the label contains a control character; remove it.",
    ),
    (
        'arms: {"a\\uFFFE": {kind: recorded, path: x}}',
        "arm 'a\\ufffe': the label contains U+FFFE or U+FFFF, which are not characters; remove it.",
    ),
    (
        f"arms: {{{'x' * 101}: {{kind: recorded, path: x}}}}",
        f"arm '{'x' * 101}': the label has 101 characters; use at most 100.",
    ),
    # values
    ("seed: -1", "seed is -1; use a whole number of at least 0."),
    ("seed: 1.5", "seed is 1.5; use a whole number of at least 0."),
    ("seed: true", "seed is true; use a whole number."),
    ("seed: '1e400'", "seed is '1e400'; use a whole number."),
    ("seed: '99999999999999999999'", "seed is '99999999999999999999'; use a whole number."),
    ("seed: 1e300", "seed is 1e+300; use a whole number of at least 0."),
    ("seed:", "seed is empty; use a whole number of at least 0."),
    ("name: 7", "name is 7; use text in quotes."),
    ("name: ../x", "name is '../x'; use at most 100 letters, digits, '-', '_' and '.'."),
    ("budget: {samples: many}", "budget.samples is 'many'; use a whole number of at least 1."),
    ("budget: {samples: 0}", "budget.samples is 0; use a whole number of at least 1."),
    ("budget: {cost: -1}", "budget.cost is -1; use a number of at least 0."),
    ("budget: {cost: inf}", "budget.cost is 'inf'; use a number."),
    (
        "budget: {time: soon}",
        "budget.time is 'soon'; use seconds, or a number with s, m or h, e.g. 30m.",
    ),
    ("budget: {time: 0}", "budget.time is 0; use a number above 0."),
    ("budget: {time: {}}", "budget.time is empty; use a number."),
    ("budget: {}", "budget: no limit is set; set samples, cost or time."),
    ("budget: 200", "budget is 200; use a mapping of keys and values."),
    ("warm_start: 0", "warm_start is 0; use a whole number of at least 1."),
    ("draw: best", "draw is 'best'; use 'iid' or 'tracking'."),
    ("resolve_growth: -1", "resolve_growth is -1; use a number of at least 0."),
    ("in_flight: 0", "in_flight is 0; use a whole number of at least 1."),
    ("reference: ''", "reference is empty; use text."),
    ("encoder: sbert", "the encoder is 'sbert'; use a mapping of keys and values."),
    ("stop_when: {}", "stop_when: no condition is set; set weights_within or score_within."),
    (
        "stop_when: {weights_within: 2}",
        "stop_when.weights_within is 2; use a number above 0 and of at most 1.",
    ),
    ("retries: {attempts: 0}", "retries.attempts is 0; use a whole number of at least 1."),
    ("retries: {timeout: 0}", "retries.timeout is 0; use a number above 0."),
    ("retries: {give_up: -5}", "retries.give_up is -5; use a number above 0."),
    (
        "retries: {first_wait: 2m}",
        "retries: longest_wait (60) is below first_wait (120); raise it.",
    ),
    (ARM % "temperature: hot", "temperature of arm 'smol' is 'hot'; use a number of at least 0."),
    (ARM % "temperature: -1", "temperature of arm 'smol' is -1; use a number of at least 0."),
    (
        ARM % "top_p: 3",
        "top_p of arm 'smol' is 3; use a number above 0 and of at most 1.",
    ),
    (ARM % "concurrency: true", "concurrency of arm 'smol' is true; use a whole number."),
    (ARM % "stop: 7", "stop of arm 'smol' is 7; use text in quotes or a list."),
    (ARM % "mode: talk", "mode of arm 'smol' is 'talk'; use 'chat' or 'completion'."),
    (
        ARM % "examples: [{user: a}]",
        "examples[0] of arm 'smol' has no 'assistant'; add it (the ideal answer of the model).",
    ),
    (
        "arms: {a: {kind: callable, function: make}}",
        "function of arm 'a' is 'make'; use another format "
        f"({purpose(ARM_KINDS, 'callable', 'function')}).",
    ),
    ("arms: {a: {kind: recorded, path: 5}}", "path of arm 'a' is 5; use text in quotes."),
    (
        "arms: {a: {kind: command, command: ls -l}}",
        "arm 'a': command is a string; write a list, e.g. [python, generate.py].",
    ),
    (
        "arms: {a: {kind: command, command: [], price: x}}",
        "command of arm 'a' is empty; use at least one entry.",
    ),
    # secrets
    (ARM % f"api_key: {SECRET}", NO_SECRETS),
    (ARM % "api-key: abc", NO_SECRETS),
    (ARM % "token: abc", NO_SECRETS),
    (ARM % "password: 1234567", NO_SECRETS),
    (ARM % "extra_body: {auth: {password: abc}}", NO_SECRETS),
    (ARM % f"api_key_env: {SECRET}", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % "api_key_env: hf_abcdefghijklmnopqrstu", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % "api_key_env: a1b2c3d4e5f6a1b2c3d4e5f6", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % "api_key_env: $OPENAI_API_KEY", f"api_key_env of arm 'smol' {NO_NAME}"),
    (ARM % f"system: {SECRET}", f"system of arm 'smol' {LOOKS_SECRET}"),
    (
        ARM % f"extra_body: {{x: [Bearer {SECRET}]}}",
        f"extra_body.x[0] of arm 'smol' {LOOKS_SECRET}",
    ),
    (
        "arms: {a: {kind: openai, model: m, prompt: p, base_url: 'https://me:pass@x.org/v1'}}",
        f"base_url of arm 'a' {LOOKS_SECRET}",
    ),
    (
        "encoder: {kind: openai, model: m, base_url: 'me:pass@x.org/v1'}",
        f"encoder.base_url {LOOKS_SECRET}",
    ),
    (
        "arms: {a: {kind: command, command: [x], env: [MY_KEY=abc]}}",
        f"env[0] of arm 'a' {NO_NAME}",
    ),
]


@pytest.mark.parametrize("line, sentence", BAD_SETTINGS)
def test_a_bad_setting_gets_a_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    text = with_line(line)
    number = text.count("\n")
    found = problems_in(tmp_path, text)
    assert f"study.yaml, line {number}: {sentence}" in found
    assert len(found) == 1 or "price: x" in line
    assert not any(
        secret in told for told in found for secret in (SECRET, "me:pass", "abc", "a1b2")
    )


def test_a_secret_in_a_comment_or_within_a_text_is_found(tmp_path: Path) -> None:
    comment = f"# api_key: {SECRET}\n"
    within = ARM % f"system: 'the key is {SECRET}, keep it'"
    words = f"this line contains a secret; {ADVICE}"
    text = comment + with_line(within) + "encoder: {kind: callable, function: 'm:f'}\n"
    assert problems_in(tmp_path, text) == [
        f"study.yaml, line 1: {words}",
        f"study.yaml, line 4: system of arm 'smol' {HOLDS_SECRET}",
    ]
    harmless = "# sk-toolkit-of-many-words, hf_" + "transformers_and_friends\n"
    assert read(tmp_path, harmless + SMALL)


KEY = "0123456789abcdef0123456789abcdef"
HOLDING_SECRETS = (
    f"the key is {SECRET}, keep it",
    f"two lines\nwith {SECRET}",
    f"Authorization: Bearer {KEY}",
    f"authorization:bearer {KEY}",
    "Authorization: Bearer abcdefghijkl",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    f"Authorization: {KEY}",
    f"X-Api-Key: {KEY}",
    f"--api-key={KEY}",
    "--api-key=abcdefghijkl",
    f"--api-key {KEY}",
    f"--openai-api-key={KEY}",
    f"OPENAI_API_KEY={KEY} ./run",
    f"MY_TOKEN={KEY} ./run",
    f"export HF_TOKEN={KEY}",
    f'{{"api_key": "{KEY}"}}',
    f"client_secret: {KEY}",
    f"key={KEY}",
    f"--token={KEY}",
    f"say Bearer {KEY} first",
    f"curl http://x.org/?a=b&key={KEY}",
    "http://x.org/?token=abcdefghijkl",
    "--proxy=http://me:passw0rd@x.org:80",
)
HOLDING_NONE = (
    "Write about the bearer representatives of a city.",
    "Bearer of extraordinarily good news",
    "Authorization: Bearer $OPENAI_API_KEY",
    "Authorization: Bearer short",
    "--api-key=$OPENAI_API_KEY",
    "--api-key=${OPENAI_API_KEY}",
    "--api-key=short",
    "api_key=os.environ['OPENAI_API_KEY']",
    "sorted(words, key=operator.itemgetter(1))",
    "the primary key=customer_identifier",
    "key=value&token=short1",
    "http://127.0.0.1:8080/v1",
    "http://x.org/?key=short&max_tokens=100000000000",
    "keyboard=12345678901234, monkey=12345678901234",
    "The secret: understanding people, 1234567890123 of them",
    "Password: must-contain-uppercase",
    "--eos-token=<|endoftext|>",
    "--max-new-tokens=1234567890123",
    "risk-2024-assessment-of-cities",
    "東京都 key=東京都東京都東京都東京都1",
)


def with_command(*words: str) -> dict[str, Any]:
    arm = {"kind": "command", "command": ["run", *words]}
    return {"arms": {"a": arm}, "objective": "vendi", "budget": {"samples": 99}}


@pytest.mark.parametrize("words", HOLDING_SECRETS)
def test_a_secret_inside_a_value_is_found_on_both_ways_in(tmp_path: Path, words: str) -> None:
    sentence = f"command[1] of arm 'a' {HOLDS_SECRET}"
    plan = with_command(words)
    with pytest.raises(StudyError) as caught:
        study_from(plan)
    assert caught.value.problems == (f"arms.a.command[1]: {sentence}",)
    (told,) = problems_in(tmp_path, json.dumps(plan))
    assert told.endswith(sentence)
    (told,) = problems_in(tmp_path, f"# {' '.join(words.split())}\n{SMALL}")
    assert told.startswith("study.yaml, line 1: this line contains a secret")


@pytest.mark.parametrize("words", HOLDING_NONE)
def test_words_that_only_sound_like_a_secret_are_taken(tmp_path: Path, words: str) -> None:
    plan = with_command(words)
    assert study_from(plan)
    assert read(tmp_path, f"# {words}\n{json.dumps(plan)}")


def test_a_secret_behind_an_option_of_a_command_is_found() -> None:
    for words in (("--api-key", KEY), ("--token", KEY), ("-H", f"X-Api-Key: {KEY}")):
        with pytest.raises(StudyError) as caught:
            study_from(with_command(*words))
        (told,) = caught.value.problems
        assert told.endswith(f"command[2] of arm 'a' {HOLDS_SECRET}")
    assert study_from(with_command("--api-key", "$MY_API_KEY_2", "--key", "weights", "--sha", KEY))


def test_a_study_that_lacks_everything_is_told_so(tmp_path: Path) -> None:
    assert problems_in(tmp_path, "seed: 1\n") == [
        "study.yaml, line 1: the study has no 'arms'; add it (the generators: a mapping from label to settings).",
        "study.yaml, line 1: the study has no 'budget'; add it (what the run may spend: samples, cost or time).",
        "study.yaml, line 1: the study has no 'objective'; add it (what to optimize).",
    ]


def test_all_faults_are_told_first_line_first(tmp_path: Path) -> None:
    text = """\
seed: -1
arms:
  a:
    kind: recorded
    pth: x.npz
  b: {kind: callable, function: "m:f", batch: 0}
objective:
  - vendy
  - precision: {kk: 3}
budget: {samples: no}
extra: 1
"""
    assert problems_in(tmp_path, text) == [
        "study.yaml, line 1: seed is -1; use a whole number of at least 0.",
        "study.yaml, line 3: arm 'a' has no 'path'; add it "
        f"({purpose(ARM_KINDS, 'recorded', 'path')}).",
        "study.yaml, line 5: unknown key 'pth' in arm 'a'; did you mean 'path'?",
        "study.yaml, line 6: batch of arm 'b' is 0; use a whole number of at least 1.",
        "study.yaml, line 8: unknown objective 'vendy'; did you mean 'vendi'?",
        "study.yaml, line 9: unknown key 'kk' in precision; did you mean 'k'?",
        "study.yaml, line 10: budget.samples is 'no'; use a whole number of at least 1.",
        "study.yaml, line 11: unknown key 'extra' in the study; the keys are "
        f"{listed(Study.model_fields)}.",
    ]


def test_plain_data_gets_the_same_sentences_by_path() -> None:
    arm = {"kind": "openai", "model": "m", "base_url": "http://x/v1", "prompt": "p"}
    data: dict[str, Any] = {
        "arms": {"smol": {**arm, "temprature": 1}, "b": {**arm, "api_key_env": SECRET}},
        "objective": ["vendi", {"precision": {"k": "x"}}],
        "reference": "real.npz",
        "budget": {"samples": 0, 3: 1},
        "seed": object,
        "warm_start": float("nan"),
    }
    with pytest.raises(StudyError) as caught:
        study_from(data)
    assert sorted(caught.value.problems) == [
        f"arms.b.api_key_env: api_key_env of arm 'b' {NO_NAME}",
        "arms.smol.temprature: unknown key 'temprature' in arm 'smol'; did you mean 'temperature'?",
        "budget.3: the key 3 of budget is not text; use a string.",
        "budget.samples: budget.samples is 0; use a whole number of at least 1.",
        "objective[1].precision.k: k of precision is 'x'; use a whole number of at most 100000.",
        "seed: seed is of type type; use text or a number.",
        "warm_start: warm_start is nan; use a finite number below 9.2e18 (or the word inf for an infinite "
        "order).",
    ]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "policy", [{"one-arm-oracle": {"arm": float("nan")}}, {"fixed": {"weights": float("inf")}}]
)
def test_a_value_that_is_wrong_twice_is_told_once(policy: dict[str, Any]) -> None:
    with pytest.raises(StudyError) as caught:
        study_from(plain_study(policy=policy))
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("data", [None, [], "vendi", 5])
def test_what_is_no_map_is_no_study(data: Any) -> None:
    with pytest.raises(StudyError, match="pass a mapping of keys and values"):
        study_from(data)


def test_data_that_holds_itself_is_refused() -> None:
    data: dict[str, Any] = {}
    data["arms"] = data
    with pytest.raises(StudyError, match="too large or contains itself; use plain nested dicts"):
        study_from(data)


# -- variants ----------------------------------------------------------------------------------------

VARIED = """arms:
  smol:
    kind: openai
    base_url: http://x/v1
    {base}
    variants:
      plain: {{{plain}}}
      cold: {{{cold}}}
encoder: {{kind: callable, function: "m:f"}}
objective: vendi
budget: {{samples: 100}}
"""


def varied(base: str = "model: m", plain: str = "prompt: p", cold: str = "prompt: p") -> str:
    return VARIED.format(base=base, plain=plain, cold=cold)


def test_variants_make_arms_that_differ(tmp_path: Path) -> None:
    study = read(tmp_path, varied(cold="prompt: q, model: n, temperature: 0.5"))
    arms = {label: arm.model_dump() for label, arm in study.arms.items()}
    assert [(label, arm["model"], arm["prompt"]) for label, arm in arms.items()] == [
        ("smol/plain", "m", "p"),
        ("smol/cold", "n", "q"),
    ]
    assert "variants" not in study.plain()["arms"]["smol/cold"]


@pytest.mark.parametrize(
    "text, expected",
    [
        # what the arm says wrongly is told once, in the arm's line
        (
            varied(base="modell: m"),
            [
                "study.yaml, line 2: arm 'smol' has no 'model'; add it "
                f"({purpose(ARM_KINDS, 'openai', 'model')}).",
                "study.yaml, line 5: unknown key 'modell' in arm 'smol'; did you mean 'model'?",
            ],
        ),
        (
            varied(plain="prompt: p, temperature: -1", cold="prompt: p, top: 1"),
            [
                "study.yaml, line 7: temperature of arm 'smol/plain' is -1; use a number of at least 0.",
                "study.yaml, line 8: unknown key 'top' in arm 'smol/cold'; did you mean 'stop'?",
            ],
        ),
        # what one variant has, the other lacks
        (
            varied(base="system: s", cold="prompt: p, model: m"),
            [
                "study.yaml, line 7: arm 'smol/plain' has no 'model'; add it "
                f"({purpose(ARM_KINDS, 'openai', 'model')}).",
            ],
        ),
        (
            varied(plain=""),
            [
                "study.yaml, line 7: arm 'smol/plain': there is no prompt; set one of prompt, prompts and "
                "prompts_file.",
            ],
        ),
        (
            varied(cold="kind: opnai, prompt: p"),
            [
                "study.yaml, line 8: unknown kind 'opnai' in arm 'smol/cold'; did you mean 'openai' "
                f"(or {listed([kind for kind in KINDS if kind != 'openai'], 'or')})?",
            ],
        ),
        (
            varied(cold="prompt: p, variants: {x: {}}"),
            [
                "study.yaml, line 8: unknown key 'variants' in arm 'smol/cold'; the keys are "
                f"{listed(KEYS['openai'][:-1])}.",
            ],
        ),
        (
            SMALL.replace('"arms:make"}', '"arms:make", variants: 5}', 1),
            [
                "study.yaml, line 2: variants of arm 'one' is 5; use a mapping such as {cold: {temperature: "
                "0.5}}, or remove it.",
            ],
        ),
        (
            SMALL.replace('"arms:make"}', '"arms:make", variants: {a: 5}}', 1),
            [
                "study.yaml, line 2: arm 'one/a' is 5; use a mapping of the settings that differ, or {}.",
            ],
        ),
        (
            SMALL.replace('"arms:make"}', '"arms:make", variants: {a: {}}}', 1).replace(
                "two", "one/a"
            ),
            ["study.yaml, line 2: there are two arms 'one/a'; rename this variant."],
        ),
    ],
)
def test_faults_of_variants_stand_where_they_were_written(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    assert problems_in(tmp_path, text) == expected


# -- objectives and policies -------------------------------------------------------------------------

OBJECTIVE_NAMES = listed(OBJECTIVES, "or")
BAD_TERMS: list[tuple[str, str]] = [
    ("objective: vendy", "unknown objective 'vendy'; did you mean 'vendi'?"),
    ("objective: fid", "unknown objective 'fid'; did you mean 'frechet-distance'?"),
    (
        "objective: recall",
        "unknown objective 'recall'; recall is reported but cannot be optimized, so use precision or density.",
    ),
    ("objective: qqqqqqq", f"unknown objective 'qqqqqqq'; use one of {OBJECTIVE_NAMES}."),
    ("objective: 5", "objective is 5; use a name such as vendi, or {vendi: {parameters}}."),
    ("objective:", "objective is empty; use a name such as vendi, or {vendi: {parameters}}."),
    ("objective: []", "objective is empty; name one, e.g. vendi."),
    ("objective: {}", "objective is empty; use a name such as vendi, or {vendi: {parameters}}."),
    (
        "objective: {vendi: , rke: }",
        "objective is a mapping of vendi and rke; write a list with one '- name' per line.",
    ),
    (
        "objective: [{vendi: , weight: 2}]",
        "'weight' is next to vendi; indent it below, as in 'vendi: {weight: …}'.",
    ),
    ("objective: {vendi: 5}", "the parameters of vendi are 5; use a mapping such as {order: …}."),
    ("objective: {cost: 5}", "the parameters of cost are 5; it takes none, so remove them."),
    ("objective: {vendi: {ordr: 1}}", "unknown key 'ordr' in vendi; did you mean 'order'?"),
    (
        "objective: {vendi: {zzz: 1}}",
        "unknown key 'zzz' in vendi; the keys are weight, order and kernel.",
    ),
    ("objective: {vendi: {order: big}}", "order of vendi is 'big'; use a number or 'inf'."),
    ("objective: {vendi: {order: true}}", "order of vendi is true; use a number."),
    ("objective: {vendi: {order: -1}}", "vendi: " + said_by(gx.Vendi, order=-1.0)),
    ("objective: {vendi: {weight: x}}", "weight of vendi is 'x'; use a number."),
    ("objective: {vendi: {weight: inf}}", "weight of vendi is 'inf'; use a number."),
    (
        "objective: {vendi: {weight: -1}}",
        said_by(gx.Vendi().__rmul__, -1),
    ),
    (
        "objective: {vendi: {kernel: gausian}}",
        "unknown kernel 'gausian'; did you mean 'gaussian'?",
    ),
    (
        "objective: {vendi: {kernel: {gaussian: {sigma: 1}}}}",
        "unknown key 'sigma' in gaussian; the keys are bandwidth, features and seed.",
    ),
    (
        "objective: {vendi: {kernel: {gaussian: {bandwidth: wide}}}}",
        "bandwidth of gaussian is 'wide'; use a number or 'median'.",
    ),
    (
        "objective: {vendi: {kernel: {gaussian: {features: 1.5}}}}",
        "features of gaussian is 1.5; use a whole number.",
    ),
    (
        "objective: {vendi: {kernel: polynomial}}",
        "vendi: " + said_by(gx.Vendi, kernel=gx.Polynomial()),
    ),
    (
        "objective: {frechet-distance: {ddof: true, reference: x}}",
        "ddof of frechet-distance is true; use a number.",
    ),
    ("objective: {rke: {unbiased: perhaps}}", "unbiased of rke is 'perhaps'; use true or false."),
    (
        "objective: {frechet-distance: {ddof: 2, reference: x}}",
        "ddof of frechet-distance is 2; use 0 or 1.",
    ),
    (
        "objective: {precision: {k: 0, reference: x}}",
        "precision: " + said_by(gx.Precision, reference=np.ones((3, 1)), k=0),
    ),
    (
        "objective: {precision: {k: 1000000, reference: x}}",
        "k of precision is 1000000; use a whole number of at most 100000.",
    ),
    (
        "objective: {precision: {reference: 5}}",
        "reference of precision is 5; use text in quotes.",
    ),
    (
        "policy: mixture_grdy",
        "unknown policy 'mixture_grdy'; did you mean 'mixture-greedy'?",
    ),
    ("policy: ucb", "unknown policy 'ucb'; did you mean 'mixture-ucb'?"),
    ("policy: qqqqqqq", f"unknown policy 'qqqqqqq'; use one of {listed(POLICIES, 'or')}."),
    (
        "policy: [uniform]",
        "policy is a list; use a name such as mixture-greedy, or {mixture-greedy: {parameters}}.",
    ),
    ("policy: {fixed: {}}", "fixed has no 'weights'; add it (share of each arm, by label)."),
    (
        "policy: {fixed: {weight: 1}}",
        "unknown key 'weight' in fixed; did you mean 'weights'?",
    ),
    (
        "policy: {mixture-ucb: {delta: -1}}",
        "mixture-ucb: " + said_by(gx.MixtureUCB, delta=-1.0),
    ),
    ("policy: {uniform: {x: 1}}", "unknown key 'x' in uniform; it has no parameters."),
    (
        "policy: {fixed: {weights: [1, 2]}}",
        "weights of fixed is a list; use a mapping of keys and values.",
    ),
    (
        "policy: {fixed: {weights: {one: 2, two: 3}}}",
        "fixed: " + said_by(gx.Fixed, weights={"one": 2.0, "two": 3.0}),
    ),
    ("policy: {fixed: {weights: {one: true}}}", "weights.one of fixed is true; use a number."),
    (
        "policy: {fixed: {weights: {one: x}}}",
        "weights.one of fixed is 'x'; use a number.",
    ),
]


@pytest.mark.parametrize("line, sentence", BAD_TERMS)
def test_a_bad_objective_or_policy_gets_a_sentence(
    tmp_path: Path, line: str, sentence: str
) -> None:
    text = with_line(line)
    found = problems_in(tmp_path, text)
    number = text.count("\n")
    assert f"study.yaml, line {number}: {sentence}" in found


def test_an_error_in_a_component_has_the_line_of_its_key(tmp_path: Path) -> None:
    text = with_line("reference: real.npz\n") + (
        "policy:\n  mixture-ucb:\n    beta: 1\n    delta: -1\n"
    )
    objective = (
        "objective:\n- Vendi:\n    kernel:\n      gaussian:\n        seed: 1\n        bandwidth: wide\n"
        "- vendi:\n    order: 2\n    weight: -1\n- precision:\n    weight: 1\n    k: 0\n"
    )
    text = text.replace("objective: vendi\n", objective)
    numbers = [int(re.findall(r"line (\d+)", each)[0]) for each in problems_in(tmp_path, text)]
    lines = [text.split("\n")[number - 1].strip() for number in numbers]
    assert lines == ["bandwidth: wide", "weight: -1", "k: 0", "delta: -1"]


def test_every_objective_kernel_and_policy_has_a_name() -> None:
    assert set(OBJECTIVES) == {
        "vendi", "rke", "frechet-distance", "kernel-distance", "quality-vendi", "inception-score",
        "precision", "density", "quality", "cost",
    }  # fmt: skip
    assert set(KERNELS) == {"cosine", "gaussian", "polynomial"}
    assert set(POLICIES) == {
        "mixture-greedy", "mixture-bonus", "mixture-ucb", "mixture-ogd", "one-arm-greedy", "epsilon-greedy",
        "one-arm-ucb", "frechet-ucb", "one-arm-oracle", "mixture-oracle", "uniform", "fixed",
    }  # fmt: skip


REAL = np.random.default_rng(0).standard_normal((30, 4))
TERMS: list[tuple[Any, gx.Objective]] = [
    ("vendi", gx.Vendi()),
    ("Vendi", gx.Vendi()),
    ({"vendi": None}, gx.Vendi()),
    ({"vendi": {"order": "inf"}}, gx.Vendi(order=float("inf"))),
    ({"vendi": {"order": "Infinity"}}, gx.Vendi(order=float("inf"))),
    ({"vendi": {"order": "1e-1", "kernel": "gaussian"}}, gx.Vendi(0.1, gx.Gaussian())),
    (
        {"vendi": {"kernel": {"gaussian": {"bandwidth": 20, "features": 512, "seed": 3}}}},
        gx.Vendi(kernel=gx.Gaussian(20, 512, 3)),
    ),
    ({"rke": {"unbiased": True, "kernel": {"cosine": None}}}, gx.RKE(gx.Cosine(), True)),
    ("frechet_distance", gx.FrechetDistance(REAL)),
    ({"frechet-distance": {"ddof": 1, "reference": "other"}}, gx.FrechetDistance(REAL, 1)),
    (
        {"kernel_distance": {"kernel": {"polynomial": {"degree": 2}}, "block_mb": 8}},
        gx.KernelDistance(REAL, gx.Polynomial(2), block_mb=8),
    ),
    ({"precision": {"k": 3}}, gx.Precision(REAL, 3)),
    ("density", gx.Density(REAL)),
    ("quality-vendi", gx.QualityVendi()),
    ("inception-score", gx.InceptionScore()),
    ({"cost": {"weight": 0.5}}, 0.5 * gx.Cost()),
    ({"cost": {"weight": -0.5}}, -0.5 * gx.Cost()),
    (
        ["vendi", {"precision": {"weight": 0.3}}, {"cost": {"weight": 0.1}}],
        gx.Vendi() + 0.3 * gx.Precision(REAL) + 0.1 * gx.Cost(),
    ),
    ([{"quality": {"weight": 1}}], gx.Quality()),
]


def plain_study(**parts: Any) -> dict[str, Any]:
    arm = {"kind": "callable", "function": "arms:make"}
    return {
        "arms": {"one": arm, "two": arm},
        "objective": "vendi",
        "budget": {"samples": 100},
        **parts,
    }


def needs_reference(written: Any, given: gx.Objective) -> bool:
    return given.dimension is not None or "precision" in str(written)


@pytest.mark.parametrize("written, expected", TERMS)
def test_objectives_are_made_as_in_python(written: Any, expected: gx.Objective) -> None:
    own = "other" in str(written)
    reference = {"reference": "real"} if needs_reference(written, expected) and not own else {}
    study = study_from(plain_study(objective=written, **reference))
    asked: list[str] = []

    def read(path: str) -> Any:
        asked.append(path)
        return REAL

    assert make_objective(study, read) == expected
    assert asked == list(reference_paths(study))
    assert study_from(study.plain()) == study


def test_a_reference_is_read_once() -> None:
    terms = [
        "frechet-distance",
        {"precision": {"weight": 1}},
        {"density": {"reference": "b", "weight": 1}},
    ]
    study = study_from(plain_study(objective=terms, reference="a"))
    asked: list[str] = []
    make_objective(study, lambda path: asked.append(path) or REAL)  # type: ignore[func-returns-value]
    assert asked == ["a", "b"] == list(reference_paths(study))


def test_a_reference_that_does_not_fit_gets_a_sentence() -> None:
    study = study_from(plain_study(objective={"precision": {"k": 50}}, reference="a"))
    with pytest.raises(InputError) as caught:
        make_objective(study, lambda _: REAL)
    assert str(caught.value) == (
        "objective: precision: the reference of precision has 30 points, and 50 nearest neighbours "
        "need at least 51: give more points or a smaller k."
    )


@pytest.mark.parametrize(
    "written, expected",
    [
        ("uniform", gx.Uniform()),
        ("mixture_greedy", gx.MixtureGreedy()),
        ({"mixture-ucb": {"delta": 0.5, "beta": "2"}}, gx.MixtureUCB(0.5, beta=2.0)),
        ({"epsilon-greedy": {"epsilon": 0.2}}, gx.EpsilonGreedy(0.2)),
        ({"one-arm-oracle": {"arm": "two"}}, gx.OneArmOracle("two")),
        ({"fixed": {"weights": {"one": 0.25, "two": 0.75}}}, gx.Fixed({"one": 0.25, "two": 0.75})),
        ({"MixtureOGD": None}, gx.MixtureOGD()),
    ],
)
def test_policies_are_made_as_in_python(written: Any, expected: gx.Policy) -> None:
    assert make_policy(study_from(plain_study(policy=written))) == expected


# -- the study as a whole ----------------------------------------------------------------------------

WHOLE: list[tuple[dict[str, Any], str]] = [
    (
        {"budget": {"samples": 19}},
        "budget.samples: a budget of 19 samples is less than the warm start of 2 × 10; use at least 20 "
        "samples, or lower warm_start.",
    ),
    (
        {"objective": "precision"},
        "objective: precision needs a reference; add 'reference:' with a features file, a text "
        "file or a folder of images.",
    ),
    (
        {"objective": ["vendi", "frechet-distance"]},
        "objective[1]: frechet-distance needs a reference; add 'reference:' with a features file, a "
        "text file or a folder of images.",
    ),
    (
        {"reference": "real.npz"},
        "reference: no objective uses the reference; remove it, or add an objective such as "
        "frechet-distance.",
    ),
    (
        {"objective": {"density": {"reference": "a"}}, "reference": "real.npz"},
        "reference: no objective uses the reference; remove it, or add an objective such as "
        "frechet-distance.",
    ),
    (
        {"objective": {"rke": {"unbiased": True}}, "warm_start": 1},
        "warm_start: warm_start is 1, but the objective needs 2 samples per arm; use at least 2.",
    ),
    (
        {"objective": {"vendi": {"kernel": "gaussian"}}, "budget": {"samples": 5000}},
        "objective: the budget is too large for the objective: "
        + said_by(gx.Vendi(kernel=gx.Gaussian()).check_total, 5000),
    ),
    (
        {"policy": {"one-arm-oracle": {"arm": "tow"}}},
        "policy.one-arm-oracle: one-arm-oracle names an unknown arm 'tow'; did you mean 'two'?",
    ),
    (
        {"policy": {"fixed": {"weights": {"one": 0.5, "xyz": 0.5}}}},
        "policy.fixed: fixed names an unknown arm 'xyz'; the arms are one and two.",
    ),
    (
        {"policy": "frechet-ucb"},
        "policy: frechet-ucb: " + said_by(gx.FrechetUCB().check, ["one"], ["one"], gx.Vendi()),
    ),
    (
        {"stop_when": {"weights_within": 0.1}},
        "stop_when.over: stop_when.over is 100, but the budget is 100 samples; lower "
        "stop_when.over.",
    ),
    (
        {"arms": {"a": {"kind": "openai", "model": "m", "base_url": "http://x/v1", "prompt": "p"}}},
        "encoder: the study has no 'encoder', and the samples of arm 'a' are not vectors; add one, "
        "e.g. 'encoder: {kind: sentence-transformers, model: …}'.",
    ),
    (
        {"arms": {"a": {"kind": "recorded", "path": "x.jsonl"}}},
        "encoder: the study has no 'encoder', and the samples of arm 'a' are not vectors; add one, "
        "e.g. 'encoder: {kind: sentence-transformers, model: …}'.",
    ),
]


@pytest.mark.parametrize("parts, sentence", WHOLE)
def test_a_study_that_cannot_end_well_is_refused(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from(plain_study(**parts))
    assert caught.value.problems == (sentence,)


def test_a_budget_of_just_the_warm_start_is_allowed() -> None:
    assert study_from(plain_study(budget={"samples": 20})).budget.samples == 20


# -- the schema and the example ----------------------------------------------------------------------


def schema_accepts(data: Any) -> bool:
    return jsonschema.Draft7Validator(json_schema()).is_valid(data)


def test_the_schema_accepts_what_people_write(tmp_path: Path) -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())
    for text in (SMALL, FULL, EXAMPLE):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        assert schema_accepts(parse_study_file(path).data)
    for written, _ in TERMS:
        if not re.search(
            "Vendi|_distance|1e-1|Infinity", str(written)
        ):  # editors want the usual spelling
            assert schema_accepts(plain_study(objective=written)), written


@pytest.mark.parametrize("text", [SMALL, FULL, EXAMPLE])
def test_the_schema_accepts_a_study_as_it_is_kept(tmp_path: Path, text: str) -> None:
    assert schema_accepts(read(tmp_path, text).plain())


@pytest.mark.parametrize(
    "parts",
    [
        {"sed": 1},
        {"objective": "vendy"},
        {"objective": {"vendi": {"ordr": 1}}},
        {"objective": []},
        {"policy": {"fixed": {"weight": 1}}},
        {"arms": {"a": {"kind": "opnai"}}},
        {"arms": {"a": {"kind": "recorded"}}},
        {"arms": {"a": {"kind": "recorded", "path": "x", "pth": "y"}}},
        {"budget": {"samples": 0}},
        {"budget": {"time": "soon"}},
        {"encoder": {"kind": "none"}},
    ],
)
def test_the_schema_refuses_what_a_study_refuses(parts: dict[str, Any]) -> None:
    assert not schema_accepts(plain_study(**parts))


def test_every_key_has_words_in_the_schema() -> None:
    schema = json_schema()
    assert not [key for key, part in schema["properties"].items() if not part.get("description")]
    for kind in (*ARM_KINDS, *ENCODER_KINDS):
        lacking = [key for key, field in kind.model_fields.items() if not field.description]
        assert lacking == ["kind"], kind


def test_the_example_is_written_and_valid(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "study"
    names = [path.name for path in write_example(folder)]
    assert names == ["study.yaml", "arms.py", "study.schema.json"]
    study = read_study(folder / "study.yaml")
    assert (study.name, list(study.arms)) == ("cities", ["coast", "inland", "slogan"])
    assert json.loads((folder / "study.schema.json").read_text()) == json_schema()


def test_the_example_does_not_overwrite_unless_told_to(tmp_path: Path) -> None:
    (tmp_path / "arms.py").write_text("mine")
    with pytest.raises(InputError) as caught:
        write_example(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/arms.py already exists; choose another folder, or overwrite it with --force."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["arms.py"]
    write_example(tmp_path, force=True)
    assert "postcard" in (tmp_path / "arms.py").read_text()


def test_a_folder_that_cannot_be_made_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write the example into .*; choose another"):
        write_example(tmp_path / "file" / "folder")


def test_what_the_example_comments_out_is_valid_too(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^# (draw|resolve|in_flight|retries|stop_when)", r"\1", EXAMPLE)
    text = re.sub(r"(?m)^#((?:  )+)(?=\S)", r"\1", text)
    assert text.count("#") < EXAMPLE.count("#") - 15
    study = read(tmp_path, text)
    assert "smol/cold" in study.arms
    assert (study.budget.cost, study.budget.time, study.in_flight) == (1.5, 1800, 8)


def test_reading_a_study_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(FULL)
    code = (
        "import sys; from genmix.study.study import read_study; read_study('study.yaml');"
        "print({'torch', 'openai', 'transformers', 'PIL', 'diffusers', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


# -- anything else -----------------------------------------------------------------------------------

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["inf", "1e3", "30m", "vendi", "gaussian", "command", "no", "a\nb", "\0", SECRET]
    ),
    st.sampled_from(
        [{}, [], [[]], {"vendi": {}}, {"kind": "command"}, {"kind": []}, {"weights": {"a": 1}}]
    ),
)
STRAY_KEYS = st.sampled_from(
    [
        "kind",
        "arms",
        "objective",
        "command",
        "openai",
        "variants",
        "weight",
        "kernel",
        "reference",
        "name",
        "x",
        "order",
        "k",
        "weights",
        "arm",
        "[key]",
        "str",
        "policy",
        "env",
        "in_flight",
        "api_key",
    ]
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [(*path, key) for key, _ in items] + [
        place for key, value in items for place in places(value, (*path, key))
    ]


def inside(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


@st.composite
def spoilt(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """A good study with some of its parts taken out, replaced, renamed or moved elsewhere."""
    data = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 4))):
        known = places(data)
        if not known:
            break
        *where, key = draw(st.sampled_from(known))
        holder = inside(data, tuple(where))
        change = draw(st.sampled_from(["drop", "replace", "rename", "add", "move"]))
        value = holder[key]
        if change == "drop":
            del holder[key]
        elif change == "replace":
            holder[key] = copy.deepcopy(draw(JUNK))
        elif change == "move":
            holder[key] = copy.deepcopy(inside(data, draw(st.sampled_from(known))))
        elif isinstance(holder, dict):
            holder[draw(STRAY_KEYS)] = value if change == "rename" else copy.deepcopy(draw(JUNK))
    return data


def outcome(read: Any) -> Study | None:
    """The study, or None if it was refused in sentences; anything else is a bug."""
    try:
        study: Study = read()
    except StudyError as error:
        for problem in error.problems:
            assert re.search(r"[.?]$", problem), problem
            assert "\n" not in problem, problem
            assert SECRET not in problem
        return None
    return study


with tempfile.TemporaryDirectory() as _folder:
    (Path(_folder) / "study.yaml").write_text(FULL)
    FULL_DATA = parse_study_file(Path(_folder) / "study.yaml").data


@settings(max_examples=300, deadline=None)
@given(data=spoilt(FULL_DATA))
def test_spoilt_data_is_a_study_or_a_study_error(data: dict[str, Any]) -> None:
    study = outcome(lambda: study_from(data))
    if study is not None:
        assert study_from(json.loads(json.dumps(study.plain(), allow_nan=False))) == study


CHARACTERS = "\t\n :-{}[]'\"#&*!|>%@`?,<~\\\0\x07é\ud800\ufeff1.eExX/"


@st.composite
def spoilt_text(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from([FULL, EXAMPLE]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 20))
        text = text[:start] + draw(st.text(CHARACTERS, max_size=4)) + text[start + length :]
    return text


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=spoilt_text())
def test_a_spoilt_file_is_a_study_or_a_study_error(tmp_path: Path, text: str) -> None:
    outcome(lambda: read(tmp_path, text))


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.one_of(st.binary(max_size=60), st.text(CHARACTERS, max_size=40)))
def test_any_file_is_a_study_or_a_study_error(tmp_path: Path, content: str | bytes) -> None:
    assert outcome(lambda: read(tmp_path, content)) is None


# -- the page ----------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "studies.md").read_text("utf-8")


def test_the_page_names_every_key_and_every_name() -> None:
    keys = [
        key for part in (Study, Budget, Retries, StopWhen, ArmSettings) for key in part.model_fields
    ]
    names = [*OBJECTIVES, *KERNELS, *POLICIES, *KINDS, *ENCODERS, "variants", "weight"]
    assert [name for name in (*keys, *names) if f"`{name}`" not in PAGE] == []


def test_the_examples_of_the_page_are_valid(tmp_path: Path) -> None:
    whole, *parts = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    study = read(tmp_path, whole)
    assert list(study.arms) == ["smol/plain", "smol/cold", "mine"]
    for part in parts:
        read(
            tmp_path, with_line(part, whole) + ("reference: x.npz\n" if "precision" in part else "")
        )
