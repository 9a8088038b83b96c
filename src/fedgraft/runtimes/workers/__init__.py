"""Workers that serve clients, and the pool that hands requests out to them: processes of this machine, or others."""
