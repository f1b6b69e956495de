"""The site that `scripts/docs` builds: pages in Markdown of what the repository holds, which Sphinx turns to HTML."""
