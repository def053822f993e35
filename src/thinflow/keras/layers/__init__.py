"""What layers compute: a function each, by subject. They are found by being here."""
