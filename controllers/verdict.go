package controllers

import (
	"cmp"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// combine makes one condition of several findings: the reason of the most severe one, and their messages in the order of severity.
// Among equals the first finding stays first, and the others are sorted, so that the order in which members fail changes nothing.
func combine(findings []topology.Finding) (reason, message string) {
	bySeverity := func(a, b topology.Finding) int {
		return cmp.Compare(v1alpha1.SeverityOf(a.Reason), v1alpha1.SeverityOf(b.Reason))
	}
	ordered := slices.Clone(findings)
	slices.SortStableFunc(ordered, bySeverity)
	slices.SortStableFunc(ordered[1:], func(a, b topology.Finding) int {
		return cmp.Or(bySeverity(a, b), strings.Compare(a.Message, b.Message))
	})
	var messages []string
	for _, f := range ordered {
		if !slices.Contains(messages, f.Message) {
			messages = append(messages, f.Message)
		}
	}
	return ordered[0].Reason, strings.Join(messages, "; ")
}
