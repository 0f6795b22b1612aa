"""Functions that edit configuration files of kube-scheduler, and the options that refer to these files."""
