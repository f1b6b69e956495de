"""Decisions with as few seeds as they need: group-sequential sign-flip tests, and the loop that runs seeds in turn."""
