package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Use is what a request does, in the terms of RBAC.
type Use struct{ Group, Resource, Verb string }

func (u Use) String() string {
	if u.Group == "" {
		return u.Verb + " " + u.Resource
	}
	return u.Verb + " " + u.Resource + "." + u.Group
}

// auditEvent is the part of an event of the API server's audit log (audit.k8s.io/v1) that is looked at.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// decision is the annotation of an event with what the authorizer decided, and forbid its value for a request that it refused. The
// status 403 alone is also that of a quota, and of a namespace that is being deleted.
const decision, forbid = "authorization.k8s.io/decision", "forbid"

// longestEvent bounds a line of the log.
const longestEvent = 1 << 20

// Audit is what a user did, as the API server wrote it down.
type Audit struct {
	// Used counts what was allowed.
	Used map[Use]int
	// Denied are requests that RBAC refused.
	Denied []string
}

// ReadAudit reads an audit log for one user. What is in it twice, for the beginning and the end of a watch, counts twice.
func ReadAudit(log io.Reader, user string) (Audit, error) {
	audit := Audit{Used: map[Use]int{}}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, longestEvent)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return audit, fmt.Errorf("read the audit log: %w", err)
		}
		if event.User.Username != user || event.ObjectRef == nil {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		use := Use{Group: event.ObjectRef.APIGroup, Resource: resource, Verb: event.Verb}
		if event.Annotations[decision] == forbid {
			audit.Denied = append(audit.Denied, fmt.Sprintf("%s in %s (%s)", use, event.ObjectRef.Namespace, event.ObjectRef.Name))
			continue
		}
		audit.Used[use]++
		// What is applied and was not there is created, for which the API server asks RBAC too.
		if event.Verb == "patch" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusCreated {
			use.Verb = "create"
			audit.Used[use]++
		}
	}
	return audit, lines.Err()
}

// LeastPrivilege compares what a user may do with what it did: what was never used, and what was denied, is wrong. unseen are
// rights that are not used by a request, each with the reason for which it is granted.
func LeastPrivilege(granted []Granted, audit Audit, unseen map[Use]string) []string {
	var wrong []string
	for _, g := range granted {
		for _, q := range g.Reviews("") {
			resource := q.Resource
			if q.Subresource != "" {
				resource += "/" + q.Subresource
			}
			use := Use{Group: q.Group, Resource: resource, Verb: q.Verb}
			// A watch begins with the objects that exist where the API server supports that (WatchList); older ones are asked for a list.
			watched := use.Verb == "list" && audit.Used[Use{Group: use.Group, Resource: use.Resource, Verb: "watch"}] > 0
			if audit.Used[use] == 0 && !watched && unseen[use] == "" {
				wrong = append(wrong, fmt.Sprintf("%s is granted and was never used: take it out of the +kubebuilder:rbac markers, or have a test use it", use))
			}
		}
	}
	denied := map[string]bool{}
	for _, request := range audit.Denied {
		denied[request] = true
	}
	for _, request := range slices.Sorted(maps.Keys(denied)) {
		wrong = append(wrong, "denied, and so needed or never to be asked: "+request)
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// splitResource cuts a rule's resource, for example mysqlclusters/status.
func splitResource(resource string) (string, string) {
	resource, subresource, _ := strings.Cut(resource, "/")
	return resource, subresource
}
