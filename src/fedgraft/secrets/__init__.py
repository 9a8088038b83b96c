"""What must stay hidden: masks of secure sums and their keys, noise of differential privacy and its account."""
