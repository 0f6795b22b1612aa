"""Rules of sharing: which cards a pod may have beside other pods, and how much its namespace may hold."""
