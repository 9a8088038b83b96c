"""Cryptography of secure sums: keys, masks, shares of secrets, and who shares them with whom."""
