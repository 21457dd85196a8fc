"""Contact or not: evidence of wrenches on links, and when and where it is a contact."""
