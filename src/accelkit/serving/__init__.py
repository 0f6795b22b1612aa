"""HTTP servers for ports that untrusted clients can reach, with limits on all sizes, times and connection counts."""
