"""One HTML page of stored runs: what is on it, and its template."""
