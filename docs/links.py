"""Copies the files of the repository that the built book links to beside it, and fails where a link of the book leads nowhere.

Usage: links.py PAGES, where PAGES is the folder of the built pages and ends with docs/src.
"""

import html
import html.parser
import pathlib
import shutil
import sys
import urllib.parse

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


class Page(html.parser.HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def copy_linked(target, book):
    """Puts the file of the repository that `target` stands for there; says whether there is one."""
    source = REPOSITORY / target.relative_to(book)
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return True
    # mdBook makes .html of a link to .md. What is no page of the book is shown as its text.
    text = source.with_suffix(".md")
    if target.suffix == ".html" and text.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f'<!doctype html><meta charset="utf-8"><title>{text.name}</title><pre>{html.escape(text.read_text())}</pre>\n')
        return True
    return False


def broken_links(folder):
    """Each link of the pages in `folder` that leads to no file or no anchor, with its page."""
    book = folder.parent.parent
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        # All pages in one, whose links are those of the pages; and the page that no path leads to.
        if path.name in ("print.html", "404.html"):
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            is_page = target in pages
            if not (target.exists() or copy_linked(target, book)):
                yield f"{path.relative_to(folder)}: {link} leads to no file"
            elif parts.fragment and is_page and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(folder)}: {link} leads to no heading"


def main():
    broken = list(broken_links(pathlib.Path(sys.argv[1]).resolve()))
    print(*broken, sep="\n", file=sys.stderr, end="\n" if broken else "")
    sys.exit(bool(broken))


main()
