"""The configuration of a host's kube-scheduler: switched to call the extender, watched, and switched back.

Imports go down: `command` and the Ansible action, `perform` (what the arguments say is done), `switch` (record, write,
wait, undo), `launch` (the file that names kube-scheduler's options), `arguments`, `configuration` (what is edited) and
`host` (files and commands of a host).
"""
