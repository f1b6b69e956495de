"""From finished runs to answers. Nothing here starts a run."""
