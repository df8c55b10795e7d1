package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// relatedImagePrefix begins the names of variables that hold an image which the operator runs itself; the prefix is
// OLM's convention for installations without access to the internet.
const relatedImagePrefix = "RELATED_IMAGE_"

// versionPlace stands for MySQL's version in the image that such a variable holds.
const versionPlace = "{version}"

// relatedImages lists every image of the operator's Deployments and those that their variables name, with the versions of the
// examples where they hold a place for one, and returns the image of the operator besides. OLM's mirroring tools copy what is
// listed here and nothing else.
func relatedImages(csv object) (related []any, manager string, err error) {
	var typed operatorsv1alpha1.ClusterServiceVersion
	if err := convert(csv, &typed); err != nil {
		return nil, "", fmt.Errorf("read the ClusterServiceVersion: %w", err)
	}
	versions, err := exampleVersions(typed.Annotations["alm-examples"])
	if err != nil {
		return nil, "", err
	}
	seen := map[string]bool{}
	add := func(name, image string) {
		if !seen[image] {
			seen[image] = true
			related = append(related, object{"name": name, "image": image})
		}
	}
	for _, deployment := range typed.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		pod := deployment.Spec.Template.Spec
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			add(c.Name, c.Image)
			if c.Name == "manager" {
				manager = c.Image
			}
			for _, variable := range c.Env {
				name, is := strings.CutPrefix(variable.Name, relatedImagePrefix)
				name = strings.ToLower(name)
				switch {
				case !is:
				case !strings.Contains(variable.Value, versionPlace):
					add(name, variable.Value)
				default:
					for _, version := range versions {
						add(name+"_"+strings.ReplaceAll(version, ".", "_"), strings.ReplaceAll(variable.Value, versionPlace, version))
					}
				}
			}
		}
	}
	if manager == "" {
		return nil, "", errors.New("no Deployment has a container manager")
	}
	return related, manager, nil
}

// exampleVersions are the versions of MySQL that the examples run, each once.
func exampleVersions(examples string) ([]string, error) {
	if examples == "" {
		return nil, nil
	}
	var list []struct {
		Spec struct {
			Version string `json:"version"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(examples), &list); err != nil {
		return nil, fmt.Errorf("read alm-examples: %w", err)
	}
	var versions []string
	for _, example := range list {
		if v := example.Spec.Version; v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

// convert reads an object into its Go type.
func convert(o object, into any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// scorecardImage is the image of our own scorecard tests as config/scorecard writes it, without a tag.
const scorecardImage = "ghcr.io/alx-ke/nairobi-mysql-operator-scorecard"

// tagScorecard has the bundle's scorecard tests run the image of the same version.
func tagScorecard(objects []object, version string) {
	for _, o := range objects {
		if o["kind"] != "Configuration" {
			continue
		}
		stages, _ := o["stages"].([]any)
		for _, stage := range stages {
			s, _ := stage.(object)
			tests, _ := s["tests"].([]any)
			for _, test := range tests {
				if t, ok := test.(object); ok && t["image"] == scorecardImage {
					t["image"] = scorecardImage + ":v" + version
				}
			}
		}
	}
}
