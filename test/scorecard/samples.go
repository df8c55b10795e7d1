package main

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// examples are the CSV's alm-examples: what a console offers as a beginning.
func (s *scene) examples() ([]unstructured.Unstructured, error) {
	var raw []map[string]any
	if err := json.Unmarshal([]byte(s.bundle.CSV.Annotations["alm-examples"]), &raw); err != nil {
		return nil, fmt.Errorf("read the annotation alm-examples: %w", err)
	}
	found := make([]unstructured.Unstructured, len(raw))
	for i := range raw {
		found[i] = unstructured.Unstructured{Object: raw[i]}
		found[i].SetNamespace(s.namespace)
	}
	return found, nil
}

// samplesAreAccepted has the API server judge a sample of every owned kind, without keeping it.
func samplesAreAccepted(ctx context.Context, s *scene) ([]string, error) {
	samples, err := s.examples()
	if err != nil {
		return nil, err
	}
	var wrong []string
	seen := map[string]bool{}
	for i := range samples {
		sample := &samples[i]
		seen[sample.GetKind()] = true
		switch err := s.client.Create(ctx, sample, client.DryRunAll); {
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return nil, fmt.Errorf("create a %s: %w", sample.GetKind(), explain(err))
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("the sample of kind %s is refused: %v: correct it in config/samples and run `make bundle`", sample.GetKind(), err))
		default:
			s.say("the sample %s of kind %s is accepted", sample.GetName(), sample.GetKind())
		}
	}
	for _, owned := range s.bundle.CSV.Spec.CustomResourceDefinitions.Owned {
		if !seen[owned.Kind] {
			wrong = append(wrong, fmt.Sprintf("kind %s has no sample: add one to config/samples and run `make bundle`", owned.Kind))
		}
	}
	return wrong, nil
}
