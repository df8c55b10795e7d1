package engine

import (
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Endpoint is a member as clients are led to it.
type Endpoint struct {
	// Name is the member's, Address the private IPv4 address of its instance.
	Name, Address string
	// Ready says that clients may be sent to the member in its role, Primary that it is the one that takes writes.
	Ready, Primary bool
}

// Endpoints are the members to which a plan leads clients. A member without an address is left out.
func Endpoints(plan topology.Plan) []Endpoint {
	var endpoints []Endpoint
	for _, v := range plan.Members {
		if v.Address != "" {
			endpoints = append(endpoints, Endpoint{Name: v.Name, Address: v.Address, Ready: v.InService, Primary: v.Role == v1alpha1.RolePrimary})
		}
	}
	return endpoints
}

// Publication is what an operator process knows of what clients are shown of one cluster.
type Publication struct {
	endpoints []Endpoint
	changedAt time.Time
	primary   string // and where it is; empty when that is not known
}

// Observe shows the planner since when clients are shown what they are shown, and which primary.
func (p *Publication) Observe(o *topology.Observed) {
	o.ShownAt, o.Shown = p.changedAt, ""
	for _, e := range p.endpoints {
		if e.Primary {
			o.Shown = e.Name
		}
	}
}

// Shown records what clients are shown from now on. What an operator shows first is nothing new to them, for all that it knows.
func (p *Publication) Shown(endpoints []Endpoint, now time.Time) {
	if p.endpoints != nil && !slices.Equal(p.endpoints, endpoints) {
		p.changedAt = now
	}
	p.endpoints = endpoints
}

// PrimaryShown records that clients find the plan's primary.
func (p *Publication) PrimaryShown(plan topology.Plan, o topology.Observed) {
	p.primary = primaryOf(plan, o)
}

// PrimaryFirst says whether clients are shown the plan's primary before anything else is done: they were not shown it before, and
// nothing has to come first that settles who takes writes, or ends what acknowledges them.
func (p *Publication) PrimaryFirst(plan topology.Plan, o topology.Observed) bool {
	return plan.Primary != "" && p.primary != primaryOf(plan, o) && !slices.ContainsFunc(plan.Actions, settlesWrites)
}

// primaryOf identifies what clients that look for the primary are shown.
func primaryOf(plan topology.Plan, o topology.Observed) string {
	if m := o.Members[plan.Primary]; m != nil && m.CurrentInstance() != nil {
		return plan.Primary + " at " + m.CurrentInstance().Address
	}
	return ""
}

func settlesWrites(a topology.Action) bool {
	switch a.(type) {
	case topology.RecordPrimary, topology.Demote, topology.StopInstance, topology.RemoveAllVoters, topology.SetSourceWait:
		return true
	}
	return false
}
