"""How the files of a control-plane host are reached."""
