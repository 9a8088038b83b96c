"""Attacks on fedgraft, one kind a file: each is a generator that tries for ever, or until its cases are done."""
