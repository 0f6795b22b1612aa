"""HTTP servers for ports that untrusted clients reach: every size, time and number of connections has a limit."""
