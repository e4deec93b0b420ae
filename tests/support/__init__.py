"""Code that several test modules share: stored and made messages, oracles, and processes."""
