//go:build e2e

package olm_test

import (
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// newField is a status field that the first release's CRD does not have: what OLM must bring over stored objects.
const newField = "addedByTheSecondRelease"

// addField puts it into the CRD of a bundle.
func addField(bundle string) error {
	file := filepath.Join(bundle, "manifests", "mysql.alx.ke_mysqlclusters.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		version.Schema.OpenAPIV3Schema.Properties["status"].Properties[newField] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "For the tests."}
	}
	if text, err = yaml.Marshal(crd); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
