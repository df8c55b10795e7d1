package iam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Document is a policy as it is written.
type Document struct {
	Version   string
	Statement []Statement
}

// Statement is one rule of a policy. Only the trust policy of a role names a Principal.
type Statement struct {
	Sid       string `json:",omitempty"`
	Effect    string
	Principal map[string]OneOrMany `json:",omitempty"`
	Action    OneOrMany
	Resource  OneOrMany `json:",omitempty"`
	Condition Condition `json:",omitempty"`
}

// Condition holds the values that are asked for, by operator and key.
type Condition map[string]map[string]OneOrMany

// OneOrMany is a list that may be written without brackets when it has one element.
type OneOrMany []string

// UnmarshalJSON reads both ways of writing it.
func (o *OneOrMany) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*o = OneOrMany{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// Read reads a policy's JSON. An element that IAM has and this package does not know, such as NotAction, is an error.
func Read(document []byte) (Document, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	var d Document
	if err := decoder.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("read the policy: %w", err)
	}
	if d.Version != "2012-10-17" {
		return Document{}, fmt.Errorf("the policy has version %q: only 2012-10-17 is known", d.Version)
	}
	if len(d.Statement) == 0 {
		return Document{}, fmt.Errorf("the policy has no statement")
	}
	sids := map[string]bool{}
	for _, s := range d.Statement {
		if s.Sid != "" && sids[s.Sid] {
			return Document{}, fmt.Errorf("two statements are called %s", s.Sid)
		}
		sids[s.Sid] = true
		if s.Effect != effectAllow && s.Effect != effectDeny {
			return Document{}, fmt.Errorf("statement %s has the effect %q", s.Sid, s.Effect)
		}
		if len(s.Action) == 0 {
			return Document{}, fmt.Errorf("statement %s has no action", s.Sid)
		}
	}
	return d, nil
}

const effectAllow, effectDeny = "Allow", "Deny"

// Policy is an identity policy of which every part is known.
type Policy struct{ statements []statement }

// statement is a Statement that is ready to be matched.
type statement struct {
	sid                string
	denies             bool
	actions, resources []string
	conditions         []condition
}

// Parse reads an identity policy, and refuses it when it uses anything that this package cannot evaluate.
func Parse(document []byte) (*Policy, error) {
	d, err := Read(document)
	if err != nil {
		return nil, err
	}
	return d.Policy()
}

// Policy prepares a document for evaluation.
func (d Document) Policy() (*Policy, error) {
	p := &Policy{}
	for _, s := range d.Statement {
		prepared, err := prepare(s)
		if err != nil {
			return nil, fmt.Errorf("statement %s: %w", s.Sid, err)
		}
		p.statements = append(p.statements, prepared)
	}
	return p, nil
}

func prepare(s Statement) (statement, error) {
	if len(s.Principal) > 0 {
		return statement{}, fmt.Errorf("an identity policy has no Principal")
	}
	if len(s.Resource) == 0 {
		return statement{}, fmt.Errorf("it has no resource")
	}
	for _, action := range s.Action {
		if !knownAction(action) {
			return statement{}, fmt.Errorf("action %s: which resources it touches is not known", action)
		}
	}
	for _, resource := range s.Resource {
		if resource != everything && !strings.HasPrefix(resource, "arn:") {
			return statement{}, fmt.Errorf("resource %s is no ARN", resource)
		}
		if err := knownVariables(resource); err != nil {
			return statement{}, err
		}
	}
	conditions, err := prepareConditions(s.Condition)
	return statement{sid: s.Sid, denies: s.Effect == effectDeny, actions: s.Action, resources: s.Resource, conditions: conditions}, err
}
