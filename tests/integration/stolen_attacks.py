"""Changes of what the cache controller creates by which a thief of its token would get further, and their refusals."""

from __future__ import annotations

from typing import Any, Final

from stolen_manifests import IMAGE, Manifests

from accelkit.gkm import names

OURS, TENANT, NAME = "stolen", "stolen-tenant", "accelkit-cache-controller"
MADE: Final = Manifests(OURS, TENANT)
STORE: Final = names.HOST_FOLDER
POD = "spec/template/spec"
CONTAINER = f"{POD}/containers/0"
HOST = {"name": "volume", "hostPath": {"path": "/"}}
LOGIN = {"secretKeyRef": {"name": "accelkit-extender-tls", "key": "tls.key"}}
PROJECTED = {"name": "volume", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
# What is tried, with which object, by which change, and part of the refusal.
# The last column has a part of the refusal; several where several policies refuse it, since the API server reports one.
ATTACKS: list[tuple[str, str, dict[str, Any], str | tuple[str, ...]]] = [
    # The node's root.
    ("a folder of the host", "job", {f"{POD}/volumes/0": HOST}, "mount only claims that it fills"),
    ("the host's processes", "job", {f"{POD}/hostPID": True}, "only the settings that it needs"),
    ("the host's network", "job", {f"{POD}/hostNetwork": True}, "only the settings that it needs"),
    ("the host's IPC", "job", {f"{POD}/hostIPC": True}, "only the settings that it needs"),
    ("the host's users", "job", {f"{POD}/hostUsers": True}, "only the settings that it needs"),
    ("another runtime", "job", {f"{POD}/runtimeClassName": "nvidia"}, "only the settings that it needs"),
    ("a node of its choice", "job", {f"{POD}/nodeName": "node-1"}, "only the settings that it needs"),
    ("a priority", "job", {f"{POD}/priorityClassName": "system-node-critical"}, "only the settings"),
    ("a second container", "job", {f"{POD}/containers/+": {"name": "x", "image": IMAGE}}, "have one container"),
    ("an init container", "job", {f"{POD}/initContainers": [{"name": "x", "image": IMAGE}]}, "have one container"),
    ("another image", "job", {f"{CONTAINER}/image": "docker.io/evil"}, "accelkit's image"),
    ("another command", "job", {f"{CONTAINER}/command": ["sh", "-c", "id"]}, "run only the commands"),
    ("another verb", "job", {f"{CONTAINER}/args/1": "verify"}, "run only the commands"),
    ("a mirror", "job", {f"{CONTAINER}/args/+": "--mirror=quay.io=evil.test"}, "run only the commands"),
    ("an option in one word", "job", {f"{CONTAINER}/args/+": "--policy=/volume/x"}, "run only the commands"),
    ("settings from a claim", "job", {f"{CONTAINER}/args/7": "/volume/policies.yaml"}, "run only the commands"),
    ("a tag", "job", {f"{CONTAINER}/args/2": "quay.io/team/app:v1"}, "run only the commands"),
    ("a privileged one", "job", {f"{CONTAINER}/securityContext": {"privileged": True}}, "as user 65532"),
    ("a capability", "job", {f"{CONTAINER}/securityContext/capabilities/add": ["SYS_ADMIN"]}, "as user 65532"),
    ("a writable root", "job", {f"{CONTAINER}/securityContext/readOnlyRootFilesystem": False}, "as user 65532"),
    (
        "user root",
        "job",
        {f"{POD}/securityContext/runAsUser": 0, f"{POD}/securityContext/runAsNonRoot": False},
        "65532",
    ),
    ("user root of one", "job", {f"{CONTAINER}/securityContext/runAsUser": 0}, "as user 65532"),
    ("no seccomp", "job", {f"{POD}/securityContext/seccompProfile": {"type": "Unconfined"}}, "as user 65532"),
    ("SELinux", "job", {f"{POD}/securityContext/seLinuxOptions": {"type": "spc_t"}}, "as user 65532"),
    ("sysctls", "job", {f"{POD}/securityContext/sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]}, "65532"),
    ("a device", "job", {f"{CONTAINER}/resources/limits/nvidia.com~1gpu": "1"}, "no devices"),
    (
        "a block device",
        "job",
        {
            f"{CONTAINER}/volumeDevices": [{"name": "volume", "devicePath": "/dev/x"}],
            f"{CONTAINER}/volumeMounts/0/name": "scratch",
        },
        "no devices",
    ),
    ("a hook", "job", {f"{CONTAINER}/lifecycle": {"preStop": {"exec": {"command": ["id"]}}}}, "no other settings"),
    (
        "a runtime's annotation",
        "job",
        {"spec/template/metadata/annotations/cdi.k8s.io~1x": "v.test/d=0"},
        "annotations",
    ),
    (
        "the labels of the webhook",
        "job",
        {"spec/template/metadata/labels/app.kubernetes.io~1name": NAME},
        "only labels",
    ),
    ("a file over its image", "job", {f"{CONTAINER}/volumeMounts/0/mountPath": "/usr/lib"}, "not mount over the files"),
    (
        "the path by a variable",
        "job",
        {f"{CONTAINER}/volumeMounts/0/subPathExpr": "$(HOME)"},
        "not mount over the files",
    ),
    ("any folder of a claim", "job", {f"{CONTAINER}/volumeMounts/0/subPath": "x"}, "not mount over the files"),
    # A volume by which a driver brings secrets, or a file with the bit setuid.
    (
        "an inline CSI volume",
        "job",
        {f"{POD}/volumes/0": {"name": "volume", "csi": {"driver": "x.test"}}},
        "mount only claims",
    ),
    (
        "an NFS volume",
        "job",
        {f"{POD}/volumes/0": {"name": "volume", "nfs": {"server": "x", "path": "/"}}},
        "mount only claims",
    ),
    (
        "iSCSI",
        "job",
        {
            f"{POD}/volumes/0": {
                "name": "volume",
                "iscsi": {"targetPortal": "x", "iqn": "iqn.2001-04.com.x:y", "lun": 0},
            }
        },
        "mount only claims",
    ),
    ("another's claim", "job", {f"{POD}/volumes/0/persistentVolumeClaim/claimName": "data"}, "mount only claims"),
    (
        "a generic volume",
        "job",
        {
            f"{POD}/volumes/0": {
                "name": "volume",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
                    }
                },
            }
        },
        "mount only claims",
    ),
    ("memory of the node", "job", {f"{POD}/volumes/2/emptyDir/sizeLimit": "64Gi"}, "mount only claims"),
    # A token, or a key.
    ("a token", "job", {f"{POD}/automountServiceAccountToken": True}, "have no token"),
    (
        "another account",
        "job",
        {f"{POD}/serviceAccountName": "accelkit-remediation"},
        "no ServiceAccount except default",
    ),
    ("a projected token", "job", {f"{POD}/volumes/0": PROJECTED}, "mount only claims"),
    ("a key as a variable", "job", {f"{CONTAINER}/env": [{"name": "X", "valueFrom": LOGIN}]}, "no variables"),
    (
        "all keys as variables",
        "job",
        {f"{CONTAINER}/envFrom": [{"secretRef": {"name": "accelkit-ca"}}]},
        "no variables",
    ),
    (
        "a key as a volume",
        "job",
        {f"{POD}/volumes/3/secret": {"secretName": "accelkit-extender-tls"}},
        "mount only claims",
    ),
    ("any Secret whole", "job", {f"{POD}/volumes/3/secret": {"secretName": "x"}}, "mount only claims"),
    ("another key of it", "job", {f"{POD}/volumes/3/secret/items/0/key": "tls.key"}, "mount only claims"),
    (
        "another's settings",
        "job",
        {f"{POD}/volumes/1/configMap/name": "accelkit-scheduler-keeper"},
        "mount only claims",
    ),
    # More pods, or those of others.
    (
        "pods of others",
        "job",
        {
            "spec/manualSelector": True,
            "spec/selector": {"matchLabels": {"a": "b"}},
            "spec/template/metadata/labels/cache.accelkit.io~1x": "b",
            "spec/template/metadata/labels/a": "b",
        },
        "one pod of a Job",
    ),
    ("a thousand pods", "job", {"spec/parallelism": 1000, "spec/completions": 1000}, "one pod of a Job"),
    (
        "another name",
        "job",
        {"metadata/name": "accelkit-reset-0123456789abcdef"},
        ("write only its own jobs", "mount only claims that it fills"),
    ),
    (
        "an owner",
        "job",
        {"metadata/ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "0"}]},
        "other labels or owners",
    ),
    ("a finalizer", "job", {"metadata/finalizers": ["x.test/stays"]}, "not set finalizers"),
    ("a label of others", "job", {"metadata/labels/app.kubernetes.io~1name": "x"}, "other labels or owners"),
    (
        "finalizers of pods",
        "job",
        {"spec/template/metadata/finalizers": ["x.test/stays"]},
        "only labels and annotations",
    ),
    (
        "pods of others",
        "daemon_set",
        {"spec/selector": {"matchLabels": {"app.kubernetes.io/part-of": "accelkit"}}},
        "its own name selects",
    ),
    ("a key", "daemon_set", {f"{POD}/volumes/+": {"name": "x", "secret": {"secretName": "x"}}}, "mount only claims"),
    ("a token", "daemon_set", {f"{POD}/automountServiceAccountToken": True}, "have no token"),
    ("another command", "daemon_set", {f"{CONTAINER}/command/2": "id"}, "run only the commands"),
    ("a folder of the host", "daemon_set", {f"{POD}/volumes/0": {**HOST, "name": "kernel-cache"}}, "mount only claims"),
    # Secrets by which Kubernetes hands out a token.
    (
        "a token of an account",
        "secret",
        {
            "type": "kubernetes.io/service-account-token",
            "data": {},
            "metadata/annotations": {"kubernetes.io/service-account.name": "accelkit-remediation"},
        },
        "only Secrets that are copies",
    ),
    ("a Secret of another", "secret", {"metadata/name": "accelkit-extender-tls"}, "write only its own secrets"),
    ("another key", "secret", {"data": {"tls.key": "e30="}, "type": "Opaque"}, "only Secrets that are copies"),
    ("without an owner", "secret", {"metadata/ownerReferences": None}, "only Secrets that are copies"),
    (
        "another owner",
        "secret",
        {"metadata/ownerReferences/0/kind": "Pod", "metadata/ownerReferences/0/apiVersion": "v1"},
        "only Secrets that are copies",
    ),
    ("a label", "secret", {"metadata/labels": {"a": "b"}}, "only Secrets that are copies"),
    # Settings of others.
    ("a report of a node", "config_map", {"metadata/name": "node-1"}, "write only its own configmaps"),
    ("other files", "config_map", {"data": {"spec.json": "{}"}}, "only the ConfigMaps of Jobs"),
    ("binary files", "config_map", {"binaryData": {"x": "e30="}}, "only the ConfigMaps of Jobs"),
    # Storage.
    ("the root of nodes", "volume", {"spec/hostPath/path": "/"}, "only volumes of caches"),
    (
        "all caches",
        "volume",
        {"spec/hostPath/path": "/var/lib/accelkit/kernel-caches/claims"},
        "only volumes of caches",
    ),
    *[
        (
            f"files of every tenant by {what}",
            "volume",
            {"spec/hostPath/path": f"{STORE}/{path}"},
            "only volumes of caches",
        )
        for what, path in (
            ("a digest", f"sha256-{'1' * 64}/cache"),
            ("a digest and a mount path", f"sha256-{'1' * 64}-{'2' * 32}/cache"),
            ("the link of a cache", f"claims/{'3' * 20}"),
            ("a digest of another namespace", f"namespaces/other/sha256-{'1' * 64}"),
            ("the cache of another namespace", f"namespaces/other/{'3' * 20}"),
            ("a namespace that begins alike", f"namespaces/{TENANT}-2/{'3' * 20}"),
            ("the namespace", f"namespaces/{TENANT}"),
            ("all namespaces", "namespaces"),
        )
    ],
    (
        "a volume for another namespace",
        "volume",
        {"spec/claimRef/namespace": "other"},
        "only volumes of caches",
    ),
    ("a folder created again", "volume", {"spec/hostPath/type": "DirectoryOrCreate"}, "only volumes of caches"),
    (
        "a CSI volume",
        "volume",
        {"spec/hostPath": None, "spec/csi": {"driver": "x", "volumeHandle": "y"}},
        "only volumes of caches",
    ),
    (
        "an NFS volume",
        "volume",
        {"spec/hostPath": None, "spec/nfs": {"server": "x", "path": "/"}},
        "only volumes of caches",
    ),
    ("a volume for anybody", "volume", {"spec/claimRef": None}, "only volumes of caches"),
    ("a volume of another name", "volume", {"metadata/name": "pv-1"}, "only volumes of caches"),
    ("a volume without labels", "volume", {"metadata/labels": {}}, "write only the persistentvolumes of kernel caches"),
    ("a volume that stays", "volume", {"metadata/finalizers": ["x.test/stays"]}, "only its own finalizer"),
    ("a copy of another's claim", "cloned", {"spec/dataSource/name": "data"}, "create only claims on storage"),
    (
        "a copy for a tenant",
        "claim",
        {"spec/dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}},
        "create only claims",
    ),
    (
        "a claim with an owner",
        "claim",
        {"metadata/ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "0"}]},
        "not set owners",
    ),
    ("a claim of any labels", "claim", {"metadata/labels/app": "db"}, "write only labels"),
]
