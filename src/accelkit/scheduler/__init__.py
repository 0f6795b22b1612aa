"""The configuration of a host's kube-scheduler: switches it to the extender, watches it, and restores it.

Each part imports only parts that follow it: `command` and the Ansible action, `perform` (runs an action), `switch`
(record, write, wait, undo), `launch` (the file that names kube-scheduler's options), `arguments`, `configuration` (what
is edited) and `host` (files and commands of a host).
"""
