"""Decision problems, and all that is exact about them."""
