"""All pages of the site, in Markdown and reStructuredText."""

from pathlib import Path

from docs_site import api, boards, markdown, papers, problems, readmes, rules

HERE = Path(__file__).resolve().parent
SECTIONS = ("Start <start>", "Rules <rules/index>", "Problems <problems/index>", "Boards <boards/index>",
            "Papers <papers/index>", "Measured <measured/index>", "Python <python/index>", "Guide <guide/index>",
            "Glossary <glossary>")  # fmt: skip
GUIDE = ("settings", "analysis", "theory", "storage", "architecture", "tests", "contributing", "changes")


def write(to: Path) -> None:
    """Write every page, and the files that they show, into a folder."""
    made = {page: readmes.page(source, to, papers.divided) for source, page in readmes.PAGES.items()}
    made["measured/claims.md"] = f"# Claims\n\n{made['measured/claims.md']}"
    made["measured/index.md"] += markdown.toctree(["claims", "times"])
    made["rules/index.md"] = rules.index(made["rules/index.md"])
    made["problems/index.md"] = problems.index(made["problems/index.md"])
    made |= papers.split(made["papers/index.md"])
    made |= rules.pages() | problems.pages(to) | api.pages()
    made |= boards.pages(to, {one.name for one in rules.rules()}, {one.name for one in problems.problems()})
    guide = [name for name in GUIDE if f"guide/{name}.md" in made]
    made["guide/index.md"] = f"# Guide\n\n{markdown.toctree(guide, hidden=False)}"
    made["index.md"] += "\n" + markdown.toctree(SECTIONS)
    for file in HERE.glob("pages/*.md"):
        made[file.name] = file.read_text(encoding="utf-8")
    for page, text in made.items():
        (to / page).parent.mkdir(parents=True, exist_ok=True)
        (to / page).write_text(text, encoding="utf-8")
