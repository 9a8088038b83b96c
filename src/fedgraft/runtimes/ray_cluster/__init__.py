"""Work on a Ray cluster: actors that serve clients, and tasks; nothing else imports Ray."""
