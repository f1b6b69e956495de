"""The leaderboard of a suite: from per-seed scores to ranks, intervals and tests, and how they are shown."""
