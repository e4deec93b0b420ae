"""What several test modules share: the stored messages, made messages, oracles, and processes."""
