"""HTTP servers for ports that untrusted clients can reach. All sizes, durations and connection counts are limited."""
