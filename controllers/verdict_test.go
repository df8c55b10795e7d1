package controllers

import (
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

func TestCombineFindings(t *testing.T) {
	notPermitted := topology.Finding{Reason: v1alpha1.ReasonNotPermitted, Message: "ec2:StopInstances is not permitted"}
	notProven := topology.Finding{Reason: v1alpha1.ReasonPromotionNotProven, Message: "no primary: 2 of the 3 voters must be reached"}
	silent := func(name string) topology.Finding {
		return topology.Finding{Reason: v1alpha1.ReasonMemberUnreachable, Message: name + " is silent"}
	}
	for name, row := range map[string]struct {
		findings        []topology.Finding
		reason, message string
	}{
		"one":                                  {[]topology.Finding{notPermitted}, "NotPermitted", notPermitted.Message},
		"what the data need comes first":       {[]topology.Finding{notPermitted, silent("orders-1"), notProven}, "PromotionNotProven", notProven.Message + "; orders-1 is silent; " + notPermitted.Message},
		"twice the same":                       {[]topology.Finding{notPermitted, notPermitted}, "NotPermitted", notPermitted.Message},
		"the first of equals, then by message": {[]topology.Finding{silent("orders-2"), silent("orders-1"), silent("orders-0")}, "MemberUnreachable", "orders-2 is silent; orders-0 is silent; orders-1 is silent"},
	} {
		if reason, message := combine(row.findings); reason != row.reason || message != row.message {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
}
