"""`mqlearn new`: examples of what a user may add, each with its yaml and its test.

`templates/KIND` holds the files of a kind as they are for the name `my_KIND`: they work as they stand. Writing them
means to put another name in its place.
"""

from mqlearn.cli.new.command import new

__all__ = ["new"]
