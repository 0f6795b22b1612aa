"""kube-scheduler's static-pod manifests as kubeadm writes them, from 1.21 to 1.37."""

from __future__ import annotations

MINORS = range(21, 38)


def kubeadm_manifest(minor: int, patch: int = 0) -> str:
    """Return the manifest of one version, in kubeadm's own layout."""
    created = "  creationTimestamp: null\n" if minor <= 33 else ""
    registry = "k8s.gcr.io" if minor <= 24 else "registry.k8s.io"
    priority = "  priority: 2000001000\n" if minor >= 24 else ""
    security = "  securityContext:\n    seccompProfile:\n      type: RuntimeDefault\n" if minor >= 22 else ""
    ports = (
        "    ports:\n    - containerPort: 10259\n      name: probe-port\n      protocol: TCP\n" if minor >= 34 else ""
    )
    options = "".join(f"    - {each}\n" for each in kubeadm_command(minor))
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n{created}  labels:\n    component: kube-scheduler\n"
        "    tier: control-plane\n  name: kube-scheduler\n  namespace: kube-system\nspec:\n  containers:\n"
        f"  - command:\n{options}"
        f"    image: {registry}/kube-scheduler:v1.{minor}.{patch}\n    imagePullPolicy: IfNotPresent\n"
        f"{_probe('liveness', minor)}    name: kube-scheduler\n{ports}"
        f"{_probe('readiness', minor) if minor >= 33 else ''}"
        "    resources:\n      requests:\n        cpu: 100m\n"
        f"{_probe('startup', minor)}"
        "    volumeMounts:\n    - mountPath: /etc/kubernetes/scheduler.conf\n      name: kubeconfig\n"
        f"      readOnly: true\n  hostNetwork: true\n{priority}  priorityClassName: system-node-critical\n{security}"
        "  volumes:\n  - hostPath:\n      path: /etc/kubernetes/scheduler.conf\n      type: FileOrCreate\n"
        "    name: kubeconfig\nstatus: {}\n"
    )


def short_manifest() -> str:
    """Return the shortest manifest that kube-scheduler runs with."""
    return (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-scheduler\n  namespace: kube-system\nspec:\n  containers:\n"
        "  - command:\n    - kube-scheduler\n    - --kubeconfig=/etc/kubernetes/scheduler.conf\n"
        "    image: registry.k8s.io/kube-scheduler:v1.34.0\n    name: kube-scheduler\n"
        "    volumeMounts:\n    - mountPath: /etc/kubernetes/scheduler.conf\n      name: kubeconfig\n"
        "  volumes:\n  - hostPath:\n      path: /etc/kubernetes/scheduler.conf\n    name: kubeconfig\n"
    )


def kubeadm_command(minor: int) -> list[str]:
    """Return the words by which kubeadm starts kube-scheduler."""
    return [
        "kube-scheduler",
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--bind-address=127.0.0.1",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--leader-elect=true",
        *(["--port=0"] if minor <= 22 else []),
    ]


def _probe(kind: str, minor: int) -> str:
    failures = {"liveness": 8, "readiness": 3, "startup": 24}[kind]
    path = {"liveness": "livez", "readiness": "readyz", "startup": "livez"}[kind] if minor >= 33 else "healthz"
    port = "probe-port" if minor >= 34 else 10259
    delay = "" if kind == "readiness" else "      initialDelaySeconds: 10\n"
    period = f"      periodSeconds: {1 if kind == 'readiness' else 10}\n"
    return (
        f"    {kind}Probe:\n      failureThreshold: {failures}\n      httpGet:\n        host: 127.0.0.1\n"
        f"        path: /{path}\n        port: {port}\n        scheme: HTTPS\n"
        f"{delay}{period}      timeoutSeconds: 15\n"
    )
