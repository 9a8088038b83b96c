"""Workers that serve clients, and the end of them that hands out requests; in processes of this machine or elsewhere."""
