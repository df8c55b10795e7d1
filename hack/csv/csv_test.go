package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTitle(t *testing.T) {
	for name, want := range map[string]string{
		"replicas": "Replicas", "clientSecurityGroupIDs": "Client Security Group IDs", "kmsKeyID": "KMS Key ID", "iamInstanceProfile": "IAM Instance Profile",
		"imageSSMParameter": "Image SSM Parameter", "roleARN": "Role ARN", "clientCIDRs": "Client CIDRs", "mysqld": "mysqld Settings", "sha256": "SHA-256",
		"credentialsSecretRef": "Credentials Secret Reference", "maxLag": "Max Lag", "iops": "IOPS",
	} {
		if got := title(name); got != want {
			t.Errorf("%s becomes %q, want %q", name, got, want)
		}
	}
}

const csv = `kind: ClusterServiceVersion
metadata:
  name: a.v0.0.0
  annotations: {alm-examples: '[{"spec": {"version": "9.7.4"}}, {"spec": {"version": "9.7.4"}}, {"spec": {}}]'}
spec:
  customresourcedefinitions: {owned: [OWNED]}
  install:
    spec:
      deployments:
        - name: a
          spec:
            template:
              spec:
                containers:
                  - {name: manager, image: "example.com/a:1", env: [{name: RELATED_IMAGE_TOOL, value: "example.com/tool:2"}, {name: RELATED_IMAGE_CLIENT, value: "example.com/client:{version}"}, {name: OTHER, value: x}]}
`

const crd = `kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  names: {kind: Thing}
  versions:
    - name: v1
      schema:
        openAPIV3Schema:
          description: A thing.
          properties:
            spec:
              properties:
                size: {type: integer, description: Size of it.}
                parts: {type: array, description: Parts., items: {properties: {name: {type: string, description: Its name.}}}}
            status:
              properties:
                conditions: {type: array, description: Conditions., items: {properties: {lastTransitionTime: {type: string}, reason: {type: string}}}}
`

const scorecard = `kind: Configuration
stages: [{tests: [{image: ghcr.io/alx-ke/nairobi-mysql-operator-scorecard}, {image: "example.com/other:1"}]}]
`

const owned = "{kind: Thing, name: things.example.com, version: v1, displayName: Thing, resources: [{kind: Service, version: v1}]}"

// play completes a bundle of these files and returns what became of them.
func play(t *testing.T, csv, crd string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	var all strings.Builder
	files := map[string]string{
		"icon.svg": "<svg/>", "manifests/csv.yaml": csv, "manifests/crd.yaml": crd, "tests/scorecard/config.yaml": scorecard,
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := run(folder, filepath.Join(folder, "icon.svg"), release{version: "0.0.2", replaces: "a.v0.0.1"})
	for name := range files {
		text, readErr := os.ReadFile(filepath.Join(folder, name))
		if readErr != nil {
			t.Fatal(readErr)
		}
		all.Write(text)
	}
	return all.String(), err
}

func TestEveryFieldGetsADescriptor(t *testing.T) {
	text, err := play(t, strings.Replace(csv, "OWNED", owned, 1), crd)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"path: size", "path: parts\n", "path: parts[0].name", "path: conditions", "io.kubernetes.conditions", "com.tectonic.ui:number",
		"description: A thing.", "base64data: PHN2Zy8+", "replaces: a.v0.0.1", "containerImage: example.com/a:1", "image: example.com/tool:2",
		"image: example.com/client:9.7.4\n", "name: client_9_7_4",
		"image: ghcr.io/alx-ke/nairobi-mysql-operator-scorecard:v0.0.2", "image: example.com/other:1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "path: conditions[0]") {
		t.Error("the parts of conditions have descriptors of their own")
	}
}

func TestFailsLoudly(t *testing.T) {
	with := strings.Replace(csv, "OWNED", owned, 1)
	for name, c := range map[string]struct{ csv, crd, want string }{
		"a kind that is not owned":          {strings.Replace(csv, "OWNED", "", 1), crd, "does not own things.example.com v1"},
		"an owned kind that is no CRD":      {strings.Replace(csv, "OWNED", owned+", {name: gone.example.com, version: v1}", 1), crd, "gone.example.com v1"},
		"a kind without a name for people":  {strings.Replace(csv, "OWNED", "{kind: Thing, name: things.example.com, version: v1}", 1), crd, "must own kind Thing with displayName and resources"},
		"a field without a description":     {with, strings.Replace(crd, ", description: Size of it.", "", 1), "no description in the Go type: size"},
		"no ClusterServiceVersion":          {"kind: Other\n", crd, "no ClusterServiceVersion"},
		"no container of the operator's":    {strings.Replace(with, "name: manager", "name: other", 1), crd, "no Deployment has a container manager"},
		"two ClusterServiceVersions in one": {with, with, "more than one ClusterServiceVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := play(t, c.csv, c.crd); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}
