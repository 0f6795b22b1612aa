"""HTTP servers for ports that untrusted clients can reach: every size, time and number of connections is limited."""
