"""The site, built strictly as by `make book`: links, images, provenance, downloads, no requests elsewhere."""

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
PAGES = ("index.html", "how_to_read.html", "notation.html", "where_is_what.html", "glossary.html")


class Page(html.parser.HTMLParser):
    """The links, loaded files, images, captions and text of a page."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.loads, self.images = set(), [], [], []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)
        self.words = self.without_tags(self.text)  # without highlighting
        figures = re.findall(r"<figure.*?</figure>", self.text, re.DOTALL)
        self.captions = {
            html.unescape(source): self.without_tags(caption)
            for figure in figures
            for source in re.findall(r'<img[^>]* src="([^"]*)"', figure)
            for caption in re.findall(r"<figcaption>.*?</figcaption>", figure, re.DOTALL)
        }

    @staticmethod
    def without_tags(text: str) -> str:
        """Return the text of HTML, its white space as single blanks."""
        return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())

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
    """Build the book if something changed; return all pages by path."""
    build()
    return {p: Page(p) for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts}


@pytest.fixture(scope="session")
def chapter_pages(site) -> dict[str, Page]:
    """Return the pages of all chapters."""
    return {stem: site[SITE / "chapters" / f"{stem}.html"] for stem in chapters.names()}


def test_the_site_has_every_chapter_and_page(site):
    names = {p.relative_to(SITE).as_posix() for p in site}
    assert {*PAGES, *(f"chapters/{stem}.html" for stem in chapters.names())} <= names


def test_no_page_shows_an_error_or_an_unresolved_directive(site):
    for path, page in site.items():
        if path.name in ("search.html", "genindex.html"):
            continue
        body = re.sub(r"<pre>.*?</pre>", "", page.text, flags=re.DOTALL)
        for sign in ("Traceback (most recent call last)", "{glue:", "{numref}", "{term}", "{cite"):
            assert sign not in body, f"{path.name} shows {sign}"
        assert "nan" not in re.findall(r">(\w+)<", body), f"{path.name} shows nan"


def test_internal_links_and_anchors_exist(site):
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links to {link}"
            if parts.fragment and target in site:
                assert unquote(parts.fragment) in site[target].ids, f"{path.name} links to {link}"


def test_each_claim_has_an_anchor_and_links_to_the_theorem_that_answers_it(site):
    claims = json.loads((ROOT / "book" / "chapters" / "ledger.json").read_text(encoding="utf-8"))[
        "claims"
    ]
    page = site[SITE / "ledger.html"]
    assert {claim["id"] for claim in claims} <= page.ids
    verdicts = {claim["id"]: claim["verdict"] for claim in claims}
    source = (ROOT / "book" / "theorems.md").read_text(encoding="utf-8")
    answers = re.findall(r"^([\w-]+): (.+)$", source, flags=re.MULTILINE)
    assert len(answers) > 20
    expected = [
        f"ledger.html#{claim}" for _, claim_ids in answers for claim in claim_ids.split(", ")
    ]
    links = site[SITE / "theorems.html"].links
    assert sorted(link for link in links if link.startswith("ledger.html#")) == sorted(expected)
    for label, claim_ids in answers:
        for claim in claim_ids.split(", "):
            row = re.search(rf'<tr[^>]* id="{re.escape(claim)}".*?<details', page.text, re.DOTALL)[
                0
            ]
            assert f"#{label}" in row, f"{claim} does not name {label}"
            if verdicts[claim] == "fails":
                assert "corrected: " in row, claim


def test_pages_load_only_files_of_the_site(site):
    for path, page in site.items():
        for load in page.loads:
            assert not urlsplit(load).netloc, f"{path.name} loads {load}"
            target = path.parent / unquote(urlsplit(load).path)
            assert target.exists(), f"{path.name} loads {load}, which is not there"


def test_every_image_has_an_alternative_text_that_does_not_repeat_its_caption(site):
    count = 0
    for path, page in site.items():
        for image in page.images:
            if "logo" in image.get("class", "") or "_static" in image["src"]:
                continue
            alt = " ".join((image.get("alt") or "").split())
            assert alt, f"{path.name}: {image['src']} has no alt text"
            caption = page.captions.get(image["src"], "")
            assert alt not in caption, f"{path.name}: the alt text {alt!r} only repeats the caption"
            assert "/" not in alt.replace("n_k/n", "").split(" ")[0]
            assert "glue:" not in alt and "…" not in alt, f"{path.name}: {alt}"
            count += 1
    assert count >= 15


def test_every_chapter_has_its_required_sections(chapter_pages):
    for stem, page in chapter_pages.items():
        text = page.text
        if stem in ("10a_own_data", "10b_own_loop", "10c_first_comparison"):
            continue  # a guide without exercises
        if stem in ("09a_proofs", "09b_variations", "09c_corrected_lemmas"):
            continue  # appendices of chapter 09, which has the exercises
        for part in ("What we learned", "Exercises", "Further reading", "Read:", "Run:"):
            assert part in text, f"{stem} lacks {part}"
        if stem == "04_theory":
            continue  # an overview: its parts have the exercises
        assert text.count('class="exercise') >= 3, stem
        assert text.count("admonition solution") + text.count('class="solution') >= 3, stem
        figures = len([i for i in page.images if "_static" not in i["src"]])
        assert page.words.count("fedstas chapter " + stem.partition("_")[0]) >= 1 or figures == 0, (
            stem
        )


def test_provenance_names_device_profile_and_command(chapter_pages):
    for stem, page in chapter_pages.items():
        assert f"papermill notebooks/ipynb/{stem}.ipynb out.ipynb" in page.words, stem
        assert re.search(r"(cpu|cuda) \(", page.text), f"{stem} does not say its device"


def test_recorded_figures_state_runs_commits_machines_and_command(site):
    record = json.loads((ROOT / "book" / "chapters" / "recorded.json").read_text(encoding="utf-8"))[
        "preprint"
    ]
    for name in ("index.html", "findings.html", "chapters/05_experiments.html"):
        page = site[SITE / name]
        for key in ("runs", "commits", "machines", "command"):
            assert record[key] in page.words, (name, key)


def test_alternative_texts_have_the_values_of_the_run(chapter_pages):
    alts = [image.get("alt", "") for image in chapter_pages["07_fedsampling"].images]
    assert any("for sigma 0, 0.75, 1.5, 2.25 and 3, by how many points" in alt for alt in alts)


def test_each_chapter_has_launch_links_and_downloads(chapter_pages):
    repository = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
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
        files = {
            f"{stem}.ipynb": copies.text(stem),
            f"{stem}.py": (ROOT / source).read_text(encoding="utf-8"),
        }
        for name, content in files.items():
            downloads = {link for link in page.links if "_downloads/" in link}
            (link,) = (link for link in downloads if Path(link).name == name)
            file = (SITE / "chapters" / unquote(link)).resolve()
            assert file.read_text(encoding="utf-8") == content
