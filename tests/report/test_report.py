"""The report: one file, nothing from outside, everything that was promised, and hostile text as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.charts.leading import MAX_COLORS, MAX_ROWS
from genmix.charts.style import GRAY
from genmix.cli import app
from genmix.data.png import as_png
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.errors import InputError
from genmix.report.figures import FIGURES
from genmix.report.sentences import LARGE_REST
from genmix.report.templating import environment
from tests.support.report_runs import ARMS, HOSTILE, feature_run, text_run

LOADERS = {"src", "href", "srcset", "data", "action", "formaction", "poster", "xlink:href", "style"}


class Page(HTMLParser):
    """What a browser would see: elements, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)
            if tag == "script":
                self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.words.append(data)
        elif self._inside[-1] == "script":
            kind, content = self.scripts[-1]
            self.scripts[-1] = (kind, content + data)

    @property
    def text(self) -> str:
        return " ".join(self.words).replace("\u00a0", " ")

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> gx.Run:
    return feature_run(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def page(features: gx.Run) -> Page:
    return read(features.report())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return read(text_run(tmp_path_factory.mktemp("texts")).report())


def test_what_a_user_came_for_is_on_top(features: gx.Run, page: Page) -> None:
    headings = re.findall(r"<h2>(.*?)</h2>", page.source)
    assert headings == [
        "Results",
        "What to do next",
        "Charts",
        "Arms",
        "Samples",
        "Settings and versions",
    ]
    summary = features.summary
    for arm, weight in summary["weights"].items():
        if weight > 0.01:
            assert f"{100 * weight:.0f}% {arm}" in page.text
    assert f"Vendi is {summary['score']['vendi']['value']:.4g} ↑" in page.text
    assert "better than the best single arm" in page.text
    assert "equal shares" in page.text
    assert "300 samples in" in page.text
    assert f"{summary['cost']:.4g}" in page.text
    assert "It has converged" in page.text
    assert "Drop dot" in page.text
    assert "the budget of 300 samples is spent" in page.text


def test_every_chart_is_drawn_with_its_marks(page: Page) -> None:
    for name in FIGURES:
        figure = re.search(rf'<figure id="{name}">.*?</figure>', page.source, re.DOTALL)
        assert figure is not None
        assert 'role="img"' in figure[0]
        assert "<figcaption>" in figure[0]
        assert figure[0].count("role-mark") > 0, name
    (points,) = re.findall(r'<g class="mark-symbol role-mark[^>]*>(.*?)</g>', _map(page))[:1]
    assert points.count("<path") == 300


def _map(page: Page) -> str:
    found = re.search(r'<figure id="map">.*?</figure>', page.source, re.DOTALL)
    assert found is not None
    return found[0]


def test_the_table_has_a_row_an_arm_and_its_numbers(features: gx.Run, page: Page) -> None:
    table = re.search(r"<table>.*?</table>", page.source, re.DOTALL)
    assert table is not None
    heads = re.findall(r'<th scope="col">(.*?)</th>', table[0])
    assert heads == [
        "Arm",
        "Samples",
        "Weight",
        "Vendi ↑ alone",
        "Loss increase without it",
        "Cost",
        "Cost per sample",
        "Failures",
        "Innovation",
    ]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", table[0], re.DOTALL)
    assert len(rows) == 3
    single = features.summary["single_scores"]["flat"]["vendi"]["value"]
    assert f"{single:.4g}" in rows[0]
    assert f"<td>{features.counts['flat']}</td>" in rows[0]
    assert "<td>0.5</td>" in rows[0]


def test_nothing_comes_from_outside(page: Page, hostile: Page) -> None:
    for found in (page, hostile):
        for tag, attributes in found.tags:
            assert tag not in (
                "iframe",
                "object",
                "embed",
                "base",
                "form",
                "link",
                "a",
                "foreignobject",
            )
            for name, value in attributes.items():
                assert not name.startswith("on"), (tag, name)
                if name in LOADERS:
                    assert tag == "img", (tag, name)
                    assert (value or "").startswith("data:image/"), (tag, value)
        assert "url(http" not in found.source
        assert "@import" not in found.source


def test_the_policy_allows_its_own_script_and_style_alone(page: Page) -> None:
    (policy,) = (
        meta["content"] or ""
        for meta in page.named("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert "http" not in policy
    style = re.search(r"<style>(.*?)</style>", page.source, re.DOTALL)
    assert style is not None
    (script,) = (text for kind, text in page.scripts if "type" not in kind)
    for content in (style[1], script):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    # The policy stands before anything that it is for.
    assert page.source.index("Content-Security-Policy") < page.source.index("<style>")


def test_hostile_texts_stay_text(hostile: Page) -> None:
    kinds = [kind.get("type") for kind, _ in hostile.scripts]
    assert kinds == ["application/json", None]
    data = json.loads(hostile.scripts[0][1])
    assert data["arms"] == list(ARMS)
    told = " ".join(words for _, words in data["points"])
    for text in HOSTILE[:4] + HOSTILE[8:14]:
        assert text in told
    for arm in ARMS:
        assert arm in hostile.text
    assert "<!-- <script>" in hostile.text
    assert "\u202e" not in hostile.source
    assert "\x1b" not in hostile.source
    assert "\x00" not in hostile.source
    # The charts carry the names of the arms as well.
    assert hostile.source.count("&lt;/script&gt;&lt;script&gt;window.hacked=1") > 5


def test_every_label_of_a_picture_and_of_a_chart_is_there(page: Page) -> None:
    for picture in page.named("img"):
        assert picture.get("alt")
    for chart in page.named("svg"):
        assert chart.get("aria-label") or chart.get("aria-hidden") == "true"
    assert page.named("html")[0]["lang"] == "en"
    assert len(page.named("h1")) == 1


def test_ids_are_used_once(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    for used in re.findall(r"url\(#([^)]+)\)", page.source):
        assert used in ids


def test_the_same_run_gives_the_same_report(features: gx.Run, page: Page, tmp_path: Path) -> None:
    assert features.report(tmp_path / "r.html").read_text("utf-8") == page.source


def test_no_machine_path_and_no_secret_is_told(features: gx.Run, page: Page) -> None:
    study = r"<pre>.*?</pre>"  # as it was written
    outside = re.sub(study, "", page.source, flags=re.DOTALL)
    assert str(features.folder.parent) in page.source
    assert str(features.folder.parent) not in outside


def test_a_failure_that_quotes_a_key_is_hidden(tmp_path: Path) -> None:
    from genmix.generators.base import GenerationError
    from genmix.journal.journal import Journal
    from genmix.journal.schema import Entry

    run = feature_run(tmp_path, 60)
    journal = Journal.open(run.folder)
    key = "sk-" + "a1b2c3d4" * 4
    for _ in range(20):
        error = GenerationError(f"401: {key} is not valid")
        journal.failure(Entry(0, "dot", 0, 0, 0.1, 0.1), "generate", error)
    journal.close()
    text = run.report().read_text("utf-8")
    assert key not in text
    assert "20 failed attempts, all repeated with success" in text


def test_pictures_are_shown_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arms = {}
    for arm in ("gray", "noise"):
        folder = tmp_path / arm
        folder.mkdir()
        for i in range(20):
            pixels = (
                rng.integers(0, 255, (300, 200, 3)) if arm == "noise" else np.full((20, 20), 9 * i)
            )
            (folder / f"{i}.png").write_bytes(as_png(pixels.astype(np.uint8)))
        arms[arm] = {"kind": "recorded", "path": str(folder)}
    study = {
        "arms": arms,
        "encoder": {"kind": "pixels", "size": 4},
        "objective": "rke",
        "budget": {"samples": 20},
        "warm_start": 5,
    }
    run = gx.run(study, tmp_path / "run")
    (run.folder / "images" / "00000001.png").write_bytes(b"no picture")
    page = read(run.report())
    pictures = page.named("img")
    assert 8 <= len(pictures) <= 16
    kinds = {(picture["src"] or "")[:15] for picture in pictures}
    assert kinds == {"data:image/png;", "data:image/jpeg"}
    assert max(len(picture["src"] or "") for picture in pictures) < 60_000
    assert "sample of noise, number" in (pictures[-1]["alt"] or "")


@pytest.mark.parametrize("stop_at", [3, 60])
def test_an_interrupted_run_has_a_report(tmp_path: Path, stop_at: int) -> None:
    def stop(live: Any) -> None:
        if live.told >= stop_at:
            live.loop.stop("interrupted")

    run = gx.run(_study(tmp_path), tmp_path / "stopped", callbacks=[stop])
    page = read(run.report())
    assert "was interrupted" in page.text
    assert f"genmix resume {tmp_path / 'stopped'}" in page.text
    assert ("There is no mixture yet" in page.text) == (stop_at == 3)


def _study(folder: Path) -> dict[str, Any]:
    arms = {
        arm: {"kind": "recorded", "path": str(folder / f"{arm}.npy"), "exhausted": "retire"}
        for arm in ("flat", "tall")
    }
    for arm in arms:
        np.save(folder / f"{arm}.npy", np.random.default_rng(len(arm)).normal(size=(200, 4)))
    return {"arms": arms, "objective": "vendi", "budget": {"samples": 100}, "warm_start": 8}


def test_a_run_without_its_snapshot_has_the_same_scores(features: gx.Run, tmp_path: Path) -> None:
    from genmix.report.facts import Facts

    before = Facts(features.folder)
    assert before.mixture is not None
    snapshot = features.folder / "selector.npz"
    content = snapshot.read_bytes()
    try:
        snapshot.unlink()
        after = Facts(features.folder)
        snapshot.write_bytes(content[: len(content) // 2])
        torn = Facts(features.folder)
    finally:
        snapshot.write_bytes(content)
    for found in (after, torn):
        assert found.mixture is not None
        assert before.mixture is not None
        assert found.mixture.scores["vendi"] == pytest.approx(
            before.mixture.scores["vendi"], rel=1e-9
        )
        assert found.weights == before.weights


def test_a_report_without_charts_still_has_words(
    features: gx.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    page = read(features.report(tmp_path / "r.html"))
    assert "Not drawn: “Single arms and mixtures”" in page.text
    assert "pip install altair" in page.text
    assert "The mixture is" in page.text


@pytest.mark.parametrize("count", [13, 40, 210])
def test_many_arms_share_a_color(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    arms = {}
    for i in range(count):
        np.save(tmp_path / f"{i}.npy", rng.normal(size=(20, 6)) + np.eye(6)[i % 6])
        arms[f"arm {i}"] = {
            "kind": "recorded",
            "path": str(tmp_path / f"{i}.npy"),
            "cost": i + 1,
            "exhausted": "retire",
        }
    arms["other arms"] = arms.pop("arm 1")
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 6 * count}, "warm_start": 5}
    run = gx.run(study, tmp_path / "run")
    page = read(run.report())
    rows = re.findall(r'<tr><th scope="row">', page.source)
    assert len(rows) == (
        count if count <= MAX_ROWS else MAX_ROWS + count
    )  # the leading ones, and all
    for name in FIGURES:
        assert f'<figure id="{name}"' in page.source
    drawn = dict(re.findall(r'<figure id="(\w+)"(.*?)</figure>', page.source, re.DOTALL))
    for name in ("weights", "frontier"):
        assert (GRAY in drawn[name]) == (count > MAX_COLORS + 1), "the color of the other arms"
    assert "could not be drawn" not in page.text
    assert ("was computed only for the 30 arms" in page.text) == (count == 40)
    assert ("the loss increase without an arm is not computed" in page.text) == (count == 210)
    little = [weight for weight in run.weights.values() if weight < UNUSED_WEIGHT]
    is_much = sum(little) >= LARGE_REST
    assert is_much == (count == 210)
    assert (f"The other {len(little)} arms have little weight each, but" in page.text) == is_much
    assert ("It hardly uses" in page.text) == (bool(little) and not is_much)


def test_a_mixture_can_give_every_arm_little_weight(tmp_path: Path) -> None:
    arms = {}
    for i in range(210):
        np.save(tmp_path / f"{i}.npy", np.random.default_rng(i).normal(size=(4, 3)))
        path = str(tmp_path / f"{i}.npy")
        arms[f"arm {i}"] = {"kind": "recorded", "path": path, "exhausted": "retire"}
    study = {"arms": arms, "objective": "vendi", "policy": "uniform", "warm_start": 1}
    run = gx.run(study | {"budget": {"samples": 420}}, tmp_path / "run")
    assert "spreads over 210 arms, each with less than 0.5%." in read(run.report()).text


def test_arms_that_are_out_are_named(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(
        "import numpy as np\n\n\ndef make(seeds):\n    raise RuntimeError('no <b>luck</b> today')\n"
    )
    study = _study(tmp_path)
    study["arms"] |= {"bad": {"kind": "callable", "function": "faulty:make"}}
    study["retries"] = {"attempts": 1, "first_wait": 0.001, "longest_wait": 0.01}
    path = tmp_path / "study.json"
    path.write_text(json.dumps(study))
    page = read(gx.run(path, tmp_path / "run").report())
    assert "It no longer includes bad." in page.text
    assert "Fix it; otherwise, drop the arm." in page.text
    assert "no <b>luck</b> today" in page.text
    assert "<b>" not in page.source


def test_the_run_folder_itself_is_not_written_over(features: gx.Run, tmp_path: Path) -> None:
    for name in ("journal.sqlite", "summary.json"):
        with pytest.raises(InputError, match="belongs to the run"):
            features.report(features.folder / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        features.report(tmp_path / "folder")


# -- at the end of a run -----------------------------------------------------------------------------


def test_a_run_ends_with_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GENMIX_REPORT")
    run = feature_run(tmp_path, 60)
    assert "Results" in (run.folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("trouble", [ValueError("no\nink"), KeyboardInterrupt()])
def test_a_report_that_fails_does_not_spoil_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise trouble

    monkeypatch.delenv("GENMIX_REPORT")
    monkeypatch.setattr("genmix.report.write_report", fail)
    notes: list[str] = []
    study = _study(tmp_path)
    run = gx.run(study, tmp_path / "run", note=notes.append)
    assert run.status == "finished"
    (told,) = [line for line in notes if "report" in line]
    assert "\n" not in told
    assert "try again with" in told


# -- the command line --------------------------------------------------------------------------------


def test_the_command_writes_it_and_says_where(features: gx.Run, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "r.html"
    result = CliRunner().invoke(app, ["report", str(features.folder), "-o", str(out)])
    assert result.exit_code == 0
    assert result.stdout.strip() == str(out)
    assert out.exists()
    missing = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert missing.exit_code == 2
    assert "is not a run folder" in missing.stderr


@pytest.mark.parametrize(
    "name, form, magic",
    [("weights", "pdf", b"%PDF"), ("map", "png", b"\x89PNG"), ("cost", "svg", b"<svg")],
)
def test_each_chart_is_a_file(
    features: gx.Run, tmp_path: Path, name: str, form: str, magic: bytes
) -> None:
    out = tmp_path / f"x.v2.{form}"
    result = CliRunner().invoke(app, ["plot", str(features.folder), name, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ["nothing"],
            "there is no chart named 'nothing'; use one of scores, weights, pooled, map, cost, frontier.",
        ),
        (["map", "-o", "x.gif"], "use a name that ends in .pdf, .png or .svg"),
    ],
)
def test_plot_refuses_in_one_sentence(features: gx.Run, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["plot", str(features.folder), *arguments])
    assert result.exit_code == 2
    assert words in result.stderr


def test_the_help_lists_the_charts() -> None:
    shown = CliRunner().invoke(app, ["plot", "--help"]).stdout
    for name in FIGURES:
        assert name in shown


def test_the_report_of_an_earlier_session_is_not_advertised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ValueError("no report today")

    (tmp_path / "study.yaml").write_text(json.dumps(_study(tmp_path)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GENMIX_REPORT")
    assert "Report: a" in CliRunner().invoke(app, ["run", "study.yaml", "-q", "-o", "a"]).stdout
    monkeypatch.setattr("genmix.report.write_report", fail)
    again = CliRunner().invoke(app, ["resume", "a", "-q"])
    assert again.exit_code == 0, again.output
    assert "Report:" not in again.stdout


def test_run_can_leave_it_out_and_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.yaml").write_text(json.dumps(_study(tmp_path)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GENMIX_REPORT")
    told = CliRunner().invoke(app, ["run", "study.yaml", "-q", "-o", "a"])
    assert told.exit_code == 0, told.output
    assert "Report: a/report.html" in told.stdout
    bare = CliRunner().invoke(app, ["run", "study.yaml", "-q", "-o", "b", "--no-report"])
    assert bare.exit_code == 0
    assert (tmp_path / "a" / "report.html").exists()
    assert not (tmp_path / "b" / "report.html").exists()


def test_importing_genmix_draws_nothing() -> None:
    late = ("altair", "vl_convert", "genmix.report")
    code = f"import sys, genmix; print([m for m in {late} if m in sys.modules])"
    environment = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "text", ["</script>", "<!--", "\u2028", "\u2029", "&", "a\\b\"'", "\ud7ff"]
)
def test_json_in_a_script_cannot_leave_it(text: str) -> None:
    value = {"x": [text, 1.5, None]}
    written = environment().from_string("{{ value|tojson }}").render(value=value)
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == value
