"""Access to the files of a control-plane host."""
