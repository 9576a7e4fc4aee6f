"""The built site: built strictly by the same command as `make book`, read without a network."""

import html
import html.parser
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from browser import ROOT, SITE, build

from companion.pages import chapters, copies

pytestmark = pytest.mark.slow
OURS = ("index.html", "how_to_read.html", "notation.html", "where_is_what.html", "glossary.html")


class Page(html.parser.HTMLParser):
    """What a page links to, loads and shows."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.loads, self.images = set(), [], [], []
        self.text = path.read_text()
        self.feed(self.text)
        self.words = html.unescape(re.sub(r"<[^>]+>", "", self.text))  # without highlighting

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("script", "img", "iframe") and attrs.get("src"):
            self.loads.append(attrs["src"])
        if tag == "link" and attrs.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(attrs["href"])
        if tag == "img":
            self.images.append(attrs)


@pytest.fixture(scope="session")
def site() -> dict[Path, Page]:
    """All pages, by path; the book is built first (incrementally)."""
    build()
    return {p: Page(p) for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts}


@pytest.fixture(scope="session")
def chapter_pages(site) -> dict[str, Page]:
    return {stem: site[SITE / "chapters" / f"{stem}.html"] for stem in chapters.names()}


def test_every_chapter_and_page_is_there(site):
    there = {p.relative_to(SITE).as_posix() for p in site}
    assert len(chapters.names()) >= 5
    assert {*OURS, *(f"chapters/{stem}.html" for stem in chapters.names())} <= there


def test_no_page_shows_an_error_or_an_unresolved_directive(site):
    for path, page in site.items():
        if path.name in ("search.html", "genindex.html"):
            continue
        body = re.sub(r"<pre>.*?</pre>", "", page.text, flags=re.DOTALL)
        for sign in ("Traceback (most recent call last)", "{glue:", "{numref}", "{term}", "{cite"):
            assert sign not in body, f"{path.name} shows {sign}"
        assert "nan" not in re.findall(r">(\w+)<", body), f"{path.name} shows nan"


def test_internal_links_and_anchors_are_live(site):
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links to {link}"
            if parts.fragment and target in site:
                assert unquote(parts.fragment) in site[target].ids, f"{path.name} links to {link}"


def test_each_claim_has_an_address_and_is_answered_where_the_book_answers_it(site):
    claims = json.loads((ROOT / "book" / "chapters" / "ledger.json").read_text())["claims"]
    page = site[SITE / "ledger.html"]
    assert {claim["id"] for claim in claims} <= page.ids
    verdicts = {claim["id"]: claim["verdict"] for claim in claims}
    written = (ROOT / "book" / "theorems.md").read_text()
    answers = re.findall(r"^([\w-]+): (.+)$", written, flags=re.MULTILINE)
    assert len(answers) > 20
    told = [f"ledger.html#{claim}" for _, listed in answers for claim in listed.split(", ")]
    linked = [
        link for link in site[SITE / "theorems.html"].links if link.startswith("ledger.html#")
    ]
    assert sorted(linked) == sorted(told)
    for label, listed in answers:
        for claim in listed.split(", "):
            row = re.search(rf'<tr[^>]* id="{re.escape(claim)}".*?<details', page.text, re.DOTALL)[
                0
            ]
            assert f"#{label}" in row, f"{claim} does not name {label}"
            if verdicts[claim] == "fails":
                assert "corrected: " in row, claim


def test_pages_load_nothing_from_elsewhere(site):
    for path, page in site.items():
        for load in page.loads:
            assert not urlsplit(load).netloc, f"{path.name} loads {load}"
            target = path.parent / unquote(urlsplit(load).path)
            assert target.exists(), f"{path.name} loads {load}, which is not there"


def test_every_image_has_words_as_alt_text(site):
    shown = 0
    for path, page in site.items():
        for image in page.images:
            if "logo" in image.get("class", "") or "_static" in image["src"]:
                continue
            alt = image.get("alt") or ""
            assert len(alt.split()) >= 8, f"{path.name}: {image['src']} has the alt text {alt!r}"
            assert "/" not in alt.replace("n_k/n", "").split(" ")[0]
            assert "glue:" not in alt and "…" not in alt, f"{path.name}: {alt}"
            shown += 1
    assert shown >= 15


def test_every_chapter_has_its_parts(chapter_pages):
    for stem, page in chapter_pages.items():
        text = page.text
        if stem == "10a_own_data":
            continue  # no chapter, but how to do things
        for part in ("What we learned", "Exercises", "Further reading", "Read:", "Run:"):
            assert part in text, f"{stem} lacks {part}"
        if stem == "04_theory":
            continue  # an opening: the exercises stand in its parts
        assert text.count('class="exercise') >= 3, stem
        assert text.count("admonition solution") + text.count('class="solution') >= 3, stem
        figures = len([i for i in page.images if "_static" not in i["src"]])
        assert page.words.count("fedstas chapter " + stem.partition("_")[0]) >= 1 or figures == 0, (
            stem
        )


def test_provenance_names_device_profile_and_command(chapter_pages):
    for stem, page in chapter_pages.items():
        assert "jupytext --to ipynb" in page.words and "| papermill" in page.words, stem
        assert re.search(r"(cpu|cuda) \(", page.text), f"{stem} does not say its device"


def test_what_is_recorded_says_how_it_was_recorded(site):
    """Beside the chapters' own figures, on the start page and in Findings, too."""
    told = json.loads((ROOT / "book" / "chapters" / "recorded.json").read_text())
    for name in ("index.html", "findings.html", "chapters/05_experiments.html"):
        page = site[SITE / name]
        assert told["preprint"]["runs"] in page.words, name
        assert told["preprint"]["commits"] in page.words, name
        assert told["preprint"]["machines"] in page.words, name
        assert told["preprint"]["command"] in page.words, name


def test_an_alternative_text_says_what_is_drawn(chapter_pages):
    alts = [image.get("alt", "") for image in chapter_pages["07_fedsampling"].images]
    assert any("over sigma 0, 0.75, 1.5, 2.25 and 3, one mark" in alt for alt in alts)


def test_each_chapter_can_be_launched_and_downloaded(chapter_pages):
    repository = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
    owner = repository["url"].removeprefix("https://github.com/")
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", owner)
    for stem, page in chapter_pages.items():
        copy = f"notebooks/ipynb/{stem}.ipynb"
        place = f"github/{owner}/blob/notebooks/{copy}"
        colab = [link for link in page.links if "colab" in urlsplit(link).netloc]
        assert colab == [f"https://colab.research.google.com/{place}"], stem
        binder = [urlsplit(link) for link in page.links if "binder" in urlsplit(link).netloc]
        assert [(link.scheme, link.netloc) for link in binder] == [("https", "mybinder.org")], stem
        assert binder[0].path == f"/v2/gh/{owner}/notebooks"
        assert parse_qs(binder[0].query) == {"labpath": [copy]}
        source = f"notebooks/{stem}.py"
        downloads = {f"{stem}.ipynb": copies.text(stem), f"{stem}.py": (ROOT / source).read_text()}
        for name, content in downloads.items():
            given = {
                link for link in page.links if "_downloads/" in link and Path(link).name == name
            }
            assert len(given) == 1, f"{stem} offers {name} {len(given)} times"
            file = (SITE / "chapters" / unquote(given.pop())).resolve()
            assert file.read_text() == content
