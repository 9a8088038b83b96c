"""What tasks, data and yardsticks of one kind share."""
