package iam

import (
	"fmt"
	"strings"
)

// everything is the resource of a statement about all resources, and of a call whose action knows no resources.
const everything = "*"

// arnParts is how many parts an ARN has; the last may hold colons itself.
const arnParts = 6

// like matches a text with a pattern of * (any text) and ? (one character).
func like(pattern, text string) bool {
	star, retry := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			retry++
			p, t = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// arnLike matches ARNs part by part: a wildcard does not reach over a colon, but for one that ends a pattern with fewer parts.
func arnLike(pattern, arn string) bool {
	if pattern == everything {
		return true
	}
	patterns, parts := strings.SplitN(pattern, ":", arnParts), strings.SplitN(arn, ":", arnParts)
	if last := len(patterns) - 1; len(patterns) < arnParts && strings.HasSuffix(patterns[last], "*") && len(parts) > len(patterns) {
		parts = append(parts[:last:last], strings.Join(parts[last:], ":"))
	}
	if len(patterns) != len(parts) {
		return false
	}
	for i := range patterns {
		if !like(patterns[i], parts[i]) {
			return false
		}
	}
	return true
}

// actionLike matches actions, whose letters' case does not count.
func actionLike(pattern, action string) bool {
	return like(strings.ToLower(pattern), strings.ToLower(action))
}

// knownVariables refuses policy variables other than condition keys that this package fills in.
func knownVariables(text string) error {
	for {
		_, rest, found := strings.Cut(text, "${")
		if !found {
			return nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !knownKey(name) || multivalued(name) {
			return fmt.Errorf("policy variable ${%s is not known", rest)
		}
		text = after
	}
}

// fill replaces policy variables by their values. ok is false when one has no value: then nothing matches.
func fill(text string, keys Keys) (filled string, ok bool) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String(), true
		}
		name, after, _ := strings.Cut(rest, "}")
		values := keys.of(name)
		if len(values) != 1 {
			return "", false
		}
		out.WriteString(values[0])
		text = after
	}
}
