"""Figures, each a function from finished numbers to a picture. Only drawing one imports matplotlib."""
