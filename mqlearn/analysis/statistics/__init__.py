"""Statistics on arrays of one number a seed."""
