"""The pages of the repository: their links lead somewhere, and they agree on the version."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import harness

REPOSITORY = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def list_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    broken = []
    for page in pages:
        for path, anchor in LINK.findall(page.read_text()):
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in list_anchors(target.resolve())):
                broken.append(f"{page.relative_to(REPOSITORY)}: {path}#{anchor}")
    assert broken == []
    assert len(pages) > 40


def test_every_page_of_the_documentation_is_in_the_readme() -> None:
    read = (REPOSITORY / "docs" / "README.md").read_text()
    linked = {(REPOSITORY / "docs" / path).resolve() for path, _ in LINK.findall(read)}
    pages = {page for page in (REPOSITORY / "docs").rglob("*.md") if page.name != "README.md"}
    assert {str(page.relative_to(REPOSITORY)) for page in pages - linked} == set()


def test_the_pages_have_the_version_of_the_package() -> None:
    assert f"\nversion: {harness.__version__}\n" in (REPOSITORY / "CITATION.cff").read_text()
    assert f"\n## [{harness.__version__}]" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_pages_about_the_code_name_files_that_exist() -> None:
    package = REPOSITORY / "harness"
    absent = []
    for page in ("architecture.md", "walks.md"):
        named = re.findall(r"`([a-z_/]+\.py)`", (REPOSITORY / "docs" / page).read_text())
        assert len(named) > 10
        absent += [f"{page}: {path}" for path in named if not any(package.rglob(path))]
    assert absent == []
