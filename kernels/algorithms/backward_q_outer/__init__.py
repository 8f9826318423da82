"""The backward pass with the query tile outside."""
