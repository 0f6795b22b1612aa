"""Configuration of a host's kube-scheduler: functions that switch it to the extender, monitor it, and restore it.

Each part imports only parts that follow it: `command` and the Ansible action, `perform` (runs an action), `switch`
(record, write, wait, undo), `launch` (the file that names kube-scheduler's options), `arguments`, `configuration` (the
edited files and options) and `host` (files and commands of a host).
"""
