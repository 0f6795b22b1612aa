"""What unit and integration tests share: how they wait, and what they make."""
