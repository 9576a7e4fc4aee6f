"""What decides the claims: a function per claim below its `@claim(...)`, a module per part of a paper."""
