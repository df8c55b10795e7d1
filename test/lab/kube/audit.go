package kube

import "path/filepath"

// auditFolder is where the API server keeps its audit log, as the node sees it.
const auditFolder = "/var/log/kubernetes"

// AuditLog is the file, on the host, in which the API server of the lab in dir notes each request of a service account: who
// asked for what, and what became of it. Tests compare it with what the account may do.
func AuditLog(dir string) string { return filepath.Join(dir, "kube", "audit", "audit.log") }

// auditPolicy leaves out what nobody asks about: people, the node, and Kubernetes' own controllers.
func auditPolicy() document {
	return document{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": []document{
			{"level": "None", "userGroups": []string{"system:serviceaccounts:kube-system"}},
			{"level": "Metadata", "userGroups": []string{"system:serviceaccounts"}},
			{"level": "None"},
		},
	}
}
