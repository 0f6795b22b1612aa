"""Manifests that people and other installers write, and the files that they refer to."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler_manifests import MINORS, kubeadm_manifest

PLAIN = kubeadm_manifest(34, 4)
CONFIGURATION = """\
# the company's own
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: "/etc/kubernetes/scheduler.conf"
profiles:
- schedulerName: default-scheduler
- schedulerName: packed   # for batch
extenders:
- urlPrefix: http://10.0.0.9:8000
  filterVerb: filter
"""
POLICY = '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsResources"}], "extenders": []}\n'


@dataclass(frozen=True)
class Host:
    """A manifest, the Kubernetes version, and files of the host by path."""

    manifest: str
    version: str = "v1.34.4"
    files: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        return None if path not in self.files else self.files[path].encode()


def with_options(manifest: str, *options: str) -> str:
    """Return a manifest whose command has more options, in the middle of its list."""
    line = "    - --bind-address=127.0.0.1\n"
    assert line in manifest
    return manifest.replace(line, line + "".join(f"    - {each}\n" for each in options))


def with_mount(manifest: str, host: str, path: str, kind: str = "File") -> str:
    """Return a manifest with one volume more, before the others."""
    mount = f"    volumeMounts:\n    - mountPath: {path}\n      name: own\n      readOnly: true\n"
    volume = f"  volumes:\n  - hostPath:\n      path: {host}\n      type: {kind}\n    name: own\n"
    return manifest.replace("    volumeMounts:\n", mount).replace("  volumes:\n", volume)


def indented_lists(manifest: str) -> str:
    """Return kubeadm's manifest with lists two columns deeper, as most people write them."""
    lines, deeper = [], 0
    bounds = {"containers:": 2, "command:": 2, "volumeMounts:": 2, "ports:": 2, "volumes:": 2}
    starts: list[int] = []
    for line in manifest.splitlines():
        column = len(line) - len(line.lstrip())
        while starts and (column < starts[-1] or (column == starts[-1] and not line.lstrip().startswith("- "))):
            starts.pop()
        deeper = 2 * len(starts)
        lines.append(" " * deeper + line)
        if line.split()[-1] in bounds:
            starts.append(column + (2 if line.lstrip().startswith("- ") else 0))
    return "\n".join(lines) + "\n"


EXISTING = with_mount(with_options(PLAIN, "--config=/etc/own.yaml"), "/opt/scheduler.yaml", "/etc/own.yaml")
OLD = kubeadm_manifest(21)
COMMENTED = "# kube-scheduler of this host\n---\n" + PLAIN.replace(
    "    - --leader-elect=true\n", "    - --leader-elect=true  # one of three\n    # end of options\n"
).replace("  hostNetwork: true\n", "\n  # the host's network\n  hostNetwork: true\n").replace(
    "status: {}\n", "status: {}\n# the end\n"
)
HOSTS = {
    **{f"kubeadm 1.{minor}": Host(kubeadm_manifest(minor), f"v1.{minor}.0") for minor in MINORS},
    "comments": Host(COMMENTED),
    "quoted": Host(
        PLAIN.replace("- --leader-elect=true", '- "--leader-elect=true"').replace(
            "name: kubeconfig", "name: 'kubeconfig'"
        )
    ),
    "indented lists": Host(indented_lists(PLAIN)),
    "Windows lines": Host(PLAIN.replace("\n", "\r\n")),
    "no newline at the end": Host(PLAIN.rstrip("\n")),
    "args": Host(PLAIN.replace("    - kube-scheduler\n", "    - kube-scheduler\n    args:\n")),
    "image's entrypoint": Host(PLAIN.replace("  - command:\n    - kube-scheduler\n", "  - args:\n")),
    "go-runner": Host(
        PLAIN.replace(
            "    - kube-scheduler\n", "    - /go-runner\n    - --log-file=/a.log\n    - /usr/local/bin/kube-scheduler\n"
        )
    ),
    "hyperkube": Host(OLD.replace("    - kube-scheduler\n", "    - /hyperkube\n    - kube-scheduler\n"), "v1.21.0"),
    "flow command": Host(
        PLAIN.replace(
            "  - command:\n" + PLAIN[PLAIN.index("    - kube-scheduler\n") : PLAIN.index("    image:")],
            "  - command: [kube-scheduler, --kubeconfig=/etc/kubernetes/scheduler.conf, --leader-elect=true]\n",
        )
    ),
    "aliases elsewhere": Host(
        PLAIN.replace("  labels:\n", "  labels: &labels\n").replace(
            "  name: kube-scheduler\n  names", "  annotations: *labels\n  name: kube-scheduler\n  names"
        )
    ),
    "an empty list of mounts": Host(
        PLAIN.replace(
            PLAIN[PLAIN.index("    volumeMounts:\n") : PLAIN.index("  hostNetwork")], "    volumeMounts: []\n"
        )
        .replace(PLAIN[PLAIN.index("  volumes:\n") : PLAIN.index("status")], "  volumes: []\n")
        .replace("    - --kubeconfig=/etc/kubernetes/scheduler.conf\n", "")
    ),
    "a sidecar": Host(
        PLAIN.replace("  hostNetwork:", "  - name: log\n    image: log\n    command: [tail, -f, /x]\n  hostNetwork:")
    ),
    "no volumes": Host(
        PLAIN.replace(PLAIN[PLAIN.index("    volumeMounts:\n") : PLAIN.index("  hostNetwork")], "")
        .replace(PLAIN[PLAIN.index("  volumes:\n") : PLAIN.index("status")], "")
        .replace("    - --kubeconfig=/etc/kubernetes/scheduler.conf\n", "")
    ),
    "values apart": Host(PLAIN.replace("- --kubeconfig=/etc", "- --kubeconfig\n    - /etc")),
    "kubespray's volumes": Host(
        with_mount(
            with_options(PLAIN, "--config=/etc/kubernetes/kubescheduler-config.yaml", "--profiling=False"),
            "/etc/kubernetes/kubescheduler-config.yaml",
            "/etc/kubernetes/kubescheduler-config.yaml",
            "",
        ),
        files={"/etc/kubernetes/kubescheduler-config.yaml": CONFIGURATION},
    ),
    "existing configuration": Host(EXISTING, files={"/opt/scheduler.yaml": CONFIGURATION}),
    "existing configuration, value apart": Host(
        with_mount(with_options(PLAIN, "--config", "/etc/own/s.yaml"), "/opt/s", "/etc/own", "Directory"),
        files={"/opt/s/s.yaml": CONFIGURATION},
    ),
    "arguments that hold the configuration alone": Host(
        with_mount(PLAIN, "/opt/scheduler.yaml", "/etc/own.yaml").replace(
            "    image:", "    args:\n    - --config=/etc/own.yaml\n    image:"
        ),
        files={"/opt/scheduler.yaml": CONFIGURATION},
    ),
    "policy file beside a configuration": Host(
        with_mount(
            with_options(OLD, "--config=/etc/own/c.yaml", "--policy-config-file=/etc/own/p.json"),
            "/opt/s",
            "/etc/own",
            "Directory",
        ),
        "v1.21.14",
        {"/opt/s/p.json": POLICY},
    ),
    "existing policy file": Host(
        with_mount(
            with_options(OLD, "--policy-config-file=/etc/policy.json", "--use-legacy-policy-config=true"),
            "/opt/p.json",
            "/etc/policy.json",
        ),
        "v1.21.14",
        {"/opt/p.json": POLICY},
    ),
    "existing policy in a ConfigMap": Host(
        with_options(OLD, "--policy-configmap=own", "--policy-configmap-namespace", "team"),
        "v1.21.14",
        {"configmap:team/own/policy.cfg": POLICY},
    ),
}
