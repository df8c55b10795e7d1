package iam

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keys are the condition keys of one request with their values. Their names' case does not count.
type Keys map[string][]string

// of returns a key's values, none when the request does not have it.
func (k Keys) of(name string) []string {
	if values, ok := k[name]; ok {
		return values
	}
	for have, values := range k {
		if strings.EqualFold(have, name) {
			return values
		}
	}
	return nil
}

// Condition keys that are filled in for the calls that they belong to.
const (
	keyTagKeys         = "aws:TagKeys"
	keyRequestedRegion = "aws:RequestedRegion"
	keyEC2Region       = "ec2:Region"
	keyCreateAction    = "ec2:CreateAction"
	keyPassedToService = "iam:PassedToService"
	keyViaService      = "kms:ViaService"
	keyGrantForAWS     = "kms:GrantIsForAWSResource"
	keyExternalID      = "sts:ExternalId"
	keyPrefix          = "s3:prefix"

	requestTag     = "aws:RequestTag/"
	resourceTag    = "aws:ResourceTag/"
	ec2ResourceTag = "ec2:ResourceTag/"
	principalTag   = "aws:PrincipalTag/"
)

var (
	wholeKeys = []string{keyTagKeys, keyRequestedRegion, keyEC2Region, keyCreateAction, keyPassedToService, keyViaService, keyGrantForAWS,
		keyExternalID, keyPrefix}
	keyPrefixes = []string{requestTag, resourceTag, ec2ResourceTag, principalTag}
)

func knownKey(name string) bool {
	return slices.ContainsFunc(wholeKeys, func(k string) bool { return strings.EqualFold(k, name) }) ||
		slices.ContainsFunc(keyPrefixes, func(p string) bool { return len(name) > len(p) && strings.EqualFold(p, name[:len(p)]) })
}

// multivalued keys hold a set, which only ForAllValues and ForAnyValue can look at.
func multivalued(name string) bool { return strings.EqualFold(name, keyTagKeys) }

// test compares a value of the request with one of the policy.
type test func(wanted, value string) bool

func equal(wanted, value string) bool { return wanted == value }

// tests are the operators that compare, and negated those that are true where their counterpart is not.
var (
	tests = map[string]test{
		"StringEquals": equal, "StringEqualsIgnoreCase": strings.EqualFold, "StringLike": like,
		"Bool": strings.EqualFold, "ArnEquals": arnLike, "ArnLike": arnLike,
	}
	negated = map[string]string{
		"StringNotEquals": "StringEquals", "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase", "StringNotLike": "StringLike",
		"ArnNotEquals": "ArnEquals", "ArnNotLike": "ArnLike",
	}
)

const (
	operatorNull = "Null"
	forAll       = "ForAllValues:"
	forAny       = "ForAnyValue:"
	ifExists     = "IfExists"
)

// condition is one key of one operator.
type condition struct {
	key    string
	wanted []string
	null   bool
	test   test
	negate bool
	// set is forAll, forAny or empty.
	set      string
	ifExists bool
}

// prepareConditions refuses operators, keys and variables that are not known.
func prepareConditions(c Condition) ([]condition, error) {
	var out []condition
	for _, operator := range slices.Sorted(maps.Keys(c)) {
		prepared, err := prepareOperator(operator)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(c[operator])) {
			prepared.key, prepared.wanted = key, c[operator][key]
			if err := prepared.check(operator); err != nil {
				return nil, err
			}
			out = append(out, prepared)
		}
	}
	return out, nil
}

func prepareOperator(operator string) (condition, error) {
	var c condition
	name := operator
	for _, set := range []string{forAll, forAny} {
		if rest, ok := strings.CutPrefix(name, set); ok {
			c.set, name = set, rest
		}
	}
	if name == operatorNull && c.set == "" {
		c.null = true
		return c, nil
	}
	name, c.ifExists = strings.CutSuffix(name, ifExists)
	if positive, ok := negated[name]; ok {
		name, c.negate = positive, true
	}
	if c.test = tests[name]; c.test == nil {
		return condition{}, fmt.Errorf("condition operator %s is not known", operator)
	}
	return c, nil
}

func (c condition) check(operator string) error {
	switch {
	case !knownKey(c.key):
		return fmt.Errorf("condition key %s is not known", c.key)
	case multivalued(c.key) != (c.set != "") && !c.null:
		return fmt.Errorf("condition operator %s does not suit the key %s: ForAllValues and ForAnyValue are for keys with many values, and only they", operator, c.key)
	case len(c.wanted) == 0:
		return fmt.Errorf("condition %s of %s has no value", operator, c.key)
	}
	for _, wanted := range c.wanted {
		if c.null && wanted != "true" && wanted != "false" {
			return fmt.Errorf("condition Null of %s has the value %q", c.key, wanted)
		}
		if err := knownVariables(wanted); err != nil {
			return err
		}
	}
	return nil
}

// holds evaluates a condition. A key that the request does not have satisfies negations, ForAllValues and IfExists, and nothing else.
func (c condition) holds(keys Keys) bool {
	values := keys.of(c.key)
	if c.null {
		return slices.Contains(c.wanted, map[bool]string{true: "true", false: "false"}[len(values) == 0])
	}
	if len(values) == 0 {
		return c.ifExists || c.set == forAll || c.set == "" && c.negate
	}
	passes := func(value string) bool {
		return c.negate != slices.ContainsFunc(c.wanted, func(wanted string) bool {
			filled, ok := fill(wanted, keys)
			return ok && c.test(filled, value)
		})
	}
	if c.set == forAny {
		return slices.ContainsFunc(values, passes)
	}
	return !slices.ContainsFunc(values, func(v string) bool { return !passes(v) })
}
