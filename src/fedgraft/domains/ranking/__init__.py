"""Ranking: which items a user will take next, from what users took and from what is known of the items."""
