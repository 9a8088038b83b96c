"""What only some methods of a family answer: an abstract class each, beside the contract of the family."""
