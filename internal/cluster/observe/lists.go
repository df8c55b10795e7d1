package observe

import (
	"fmt"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// reportLists reports the lists that EC2 does not answer. Only what needs one of them waits for it.
func reportLists(s *pass.Pass) {
	if !s.Observed.CloudReachable {
		return // which says more
	}
	for _, l := range s.Access.Cloud.Inventory.Unanswered() {
		message := unansweredMessage(l)
		s.Unmet = append(s.Unmet, topology.Finding{Reason: l.Reason, Message: message})
		if l.List == inventory.ListSnapshots {
			s.Observed.Snapshots.Unanswered = message
		}
	}
}

// unansweredMessage says which list EC2 does not answer, as of when it is known, why, and what to do.
func unansweredMessage(l inventory.Unanswered) string {
	known := "the operator has not read it since it started"
	if !l.Taken.IsZero() {
		known = "the operator uses that of " + l.Taken.UTC().Format("15:04 UTC on 2 Jan")
	}
	advice := ""
	switch awsapi.Classify(l.Err) {
	case awsapi.Unreachable, awsapi.Transient, awsapi.Throttled:
		advice = ". It is retried; if it stays, reduce what EC2 has to search: see " + listsPage
	case awsapi.Invalid:
		advice = ". The endpoint rejects what the operator asks: see " + listsPage
	case awsapi.Denied, awsapi.Waiting, awsapi.Quota, awsapi.NotFound:
	}
	return fmt.Sprintf("EC2 does not answer the list of %s, %s: %s%s", l.List, known, awsapi.Message(l.Err), advice)
}

// listsPage is where a reader finds what each list is used for.
const listsPage = "docs/aws.md#lists-that-may-fail"
