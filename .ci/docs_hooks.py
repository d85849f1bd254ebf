"""Make the pages of the site that are not in docs/, and adapt the links to files outside of it.

The reference of commands and of Python names is made from the code. The change log, the security policy and
the guide for contributors are pages of the site too. llms.txt lists the pages for models, and llms-full.txt
has their texts (https://llmstxt.org).
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File

import harness

REPOSITORY = Path(__file__).parents[1]
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"\]\((?![\w+]+:|#)([^)#\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    pages = {name: (REPOSITORY / name).read_text() for name in ROOT_PAGES}
    pages |= {"reference/commands.md": describe_commands(), "reference/python.md": describe_names()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to files outside of docs/ to the repository, and those to pages of the site to these."""
    here = page.file.src_uri
    place = posixpath.dirname("" if here in ROOT_PAGES else f"docs/{here}")

    config.extra.setdefault("texts", {})[here] = markdown

    def adapt(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(place, found[1]))
        if target in ROOT_PAGES or target.startswith("docs/"):
            name = target.removeprefix("docs/")
            if files.get_file_from_path(name) is not None:
                return f"]({posixpath.relpath(name, posixpath.dirname(here) or '.')}"
        if here.startswith("reference/"):
            return found[0]
        return f"]({config.repo_url}/blob/main/{target}"

    return LINK.sub(adapt, markdown)


def on_post_build(config: Any) -> None:
    """Write llms.txt and llms-full.txt, in the order of the navigation."""
    texts: dict[str, str] = config.extra["texts"]
    lines = [f"# {config.site_name}", f"> {config.site_description}"]
    for section in config.nav:
        for title, pages in section.items():
            lines.append(f"## {title}")
            lines += [
                f"- [{texts[page].splitlines()[0].lstrip('# ')}]({_url(config, page)})" for page in pages
            ]
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n\n".join(lines).replace(")\n\n- ", ")\n- ") + "\n")
    whole = [texts[page] for section in config.nav for pages in section.values() for page in pages]
    (site / "llms-full.txt").write_text("\n\n".join(whole))


def _url(config: Any, page: str) -> str:
    name = page.removesuffix(".md")
    return f"{config.site_url}{'' if name == 'README' else f'{name}/'}"


def describe_commands() -> str:
    """Return the help of every command as a page."""
    from harness.cli.app import app

    os.environ["COLUMNS"] = "100"
    parts = ["# Commands\n\nMade from `harness COMMAND --help`."]
    for name, text in list_helps(typer.main.get_command(app), None, "harness"):
        parts.append(f"## {name}\n\n```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def list_helps(command: Any, parent: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of a command and of all commands below it."""
    context = typer.Context(
        command, info_name=name.split()[-1], parent=parent, help_option_names=["-h", "--help"]
    )
    yield name, command.get_help(context)
    for each in command.list_commands(context) if hasattr(command, "commands") else ():
        yield from list_helps(command.get_command(context, each), context, f"{name} {each}")


def describe_names() -> str:
    """Return the page of all public names, whose docstrings mkdocstrings inserts."""
    names = [name for name in harness.__all__ if name != "__version__"]
    homes = sorted(f"{harness._HOME[name]}.{name}" for name in names)
    listed = "\n\n".join(f"::: {home}" for home in homes)
    return f"# Python\n\nEach name is imported from `harness`, as in `from harness import run`.\n\n{listed}\n"
