"""What is right: standard attention, exact attention in float64, and the rule that judges a result."""
