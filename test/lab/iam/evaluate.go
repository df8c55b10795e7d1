package iam

import (
	"fmt"
	"slices"
)

// Request is what IAM is asked: one action on one resource. A call that touches several resources makes several, and each must be
// allowed.
type Request struct {
	Action string
	// Resource is an ARN, or * where the action knows no resources.
	Resource string
	Keys     Keys
}

// Decision is the answer to a request.
type Decision struct {
	Allowed bool
	// Denied says that a statement forbids it; else nothing allows it.
	Denied bool
	// Sid names the statement that decided, if one did.
	Sid string
}

// Evaluate decides on one request: a Deny outranks every Allow, and what nothing allows is not allowed.
func (p *Policy) Evaluate(r Request) Decision {
	var allowed Decision
	for _, s := range p.statements {
		if !s.matches(r) {
			continue
		}
		if s.denies {
			return Decision{Denied: true, Sid: s.sid}
		}
		if !allowed.Allowed {
			allowed = Decision{Allowed: true, Sid: s.sid}
		}
	}
	return allowed
}

func (s statement) matches(r Request) bool {
	return slices.ContainsFunc(s.actions, func(pattern string) bool { return actionLike(pattern, r.Action) }) &&
		slices.ContainsFunc(s.resources, func(pattern string) bool {
			filled, ok := fill(pattern, r.Keys)
			return ok && arnLike(filled, r.Resource)
		}) &&
		!slices.ContainsFunc(s.conditions, func(c condition) bool { return !c.holds(r.Keys) })
}

// Principal is who makes a call.
type Principal struct {
	// ARN is shown where something is denied.
	ARN string
	// Policy limits it; nil for nobody who is limited.
	Policy *Policy
	// Tags are those of its session, which it passes on to each role that it takes on, as the sessions of EKS Pod Identity do.
	Tags map[string]string
}

// Refusal is a request that a principal's policy does not allow.
type Refusal struct {
	Request
	Principal string
	Decision  Decision
}

// Judge returns the first of a call's requests that is not allowed, nil when all are.
func (p Principal) Judge(requests []Request) *Refusal {
	if p.Policy == nil {
		return nil
	}
	for _, r := range requests {
		for key, value := range p.Tags {
			r.Keys = r.Keys.with(principalTag+key, value)
		}
		if d := p.Policy.Evaluate(r); !d.Allowed {
			return &Refusal{Request: r, Principal: p.ARN, Decision: d}
		}
	}
	return nil
}

// Reason is the part of AWS's answer that is the same for all services.
func (r *Refusal) Reason() string {
	on := ""
	if r.Resource != everything {
		on = " on resource: " + r.Resource
	}
	why := fmt.Sprintf("because no identity-based policy allows the %s action", r.Action)
	if r.Decision.Denied {
		why = "with an explicit deny in an identity-based policy"
	}
	return fmt.Sprintf("User: %s is not authorized to perform: %s%s %s", r.Principal, r.Action, on, why)
}
