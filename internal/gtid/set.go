// Package gtid is the algebra of MySQL's sets of global transaction identifiers: pure values, no server.
//
// The parser is our own, because go-mysql-org/go-mysql (v1.13) refuses tagged identifiers
// (`uuid:tag:1-5`, MySQL 8.3 and later) as invalid intervals, and because its sets are changed in place, while the
// decisions that rest on these sets want values that nobody can change behind their back.
package gtid

import (
	"slices"
	"strconv"
	"strings"
)

// Set is an immutable set of GTIDs. The zero value is the empty set.
type Set struct {
	// sources is sorted by key and has no empty member.
	sources []source
}

// source holds the transactions of one UUID under one tag, or under none.
type source struct {
	// key is the UUID in lower case, followed by a colon and the tag where there is one.
	// UUIDs all have the same length, so the order of keys is MySQL's: by UUID, the untagged ones first.
	key string
	// intervals is sorted, and its members neither overlap nor touch.
	intervals []interval
}

// interval holds the transaction numbers from start up to, but not including, stop. 1 <= start < stop <= maxStop.
type interval struct {
	start, stop int64
}

// Union returns the transactions that are in s, in o, or in both.
func (s Set) Union(o Set) Set {
	return combine(1, weighted{s, 1}, weighted{o, 1})
}

// Intersect returns the transactions that are in s and in o.
func (s Set) Intersect(o Set) Set {
	return combine(2, weighted{s, 1}, weighted{o, 1})
}

// Subtract returns the transactions that are in s and not in o.
func (s Set) Subtract(o Set) Set {
	return combine(1, weighted{s, 1}, weighted{o, -1})
}

// HeldByAtLeast returns the transactions that are in at least k of the sets. A k below 1 counts as 1.
func HeldByAtLeast(k int, sets []Set) Set {
	terms := make([]weighted, 0, len(sets))
	for _, s := range sets {
		terms = append(terms, weighted{s, 1})
	}
	return combine(max(k, 1), terms...)
}

// Contains tells whether every transaction of o is in s. Every set contains the empty one.
func (s Set) Contains(o Set) bool {
	return o.Subtract(s).IsEmpty()
}

// IsEmpty tells whether s has no transaction.
func (s Set) IsEmpty() bool {
	return len(s.sources) == 0
}

// Equal tells whether s and o have the same transactions.
func (s Set) Equal(o Set) bool {
	return slices.EqualFunc(s.sources, o.sources, func(a, b source) bool {
		return a.key == b.key && slices.Equal(a.intervals, b.intervals)
	})
}

// Count returns the number of transactions in s. It stays at the largest uint64 rather than wrapping round.
func (s Set) Count() uint64 {
	var n uint64
	for _, src := range s.sources {
		for _, i := range src.intervals {
			before := n
			n += uint64(i.stop - i.start)
			if n < before {
				return ^uint64(0)
			}
		}
	}
	return n
}

// First returns the first n transactions of s, each as a GTID, in the order of its text.
func (s Set) First(n int) []string {
	var first []string
	for _, src := range s.sources {
		for _, i := range src.intervals {
			for number := i.start; number < i.stop && len(first) < n; number++ {
				first = append(first, src.key+":"+strconv.FormatInt(number, 10))
			}
		}
	}
	return first
}

// weighted is a set that counts as weight wherever it holds a transaction.
type weighted struct {
	set    Set
	weight int
}

// edge is a point where the summed weight changes.
type edge struct {
	at     int64
	change int
}

// combine returns the transactions whose summed weight is at least threshold, which is at least 1.
// All the algebra is this one sweep along the number line of each source.
func combine(threshold int, terms ...weighted) Set {
	edges := map[string][]edge{}
	for _, t := range terms {
		for _, src := range t.set.sources {
			for _, i := range src.intervals {
				edges[src.key] = append(edges[src.key], edge{i.start, t.weight}, edge{i.stop, -t.weight})
			}
		}
	}
	var result []source
	for key, e := range edges {
		if intervals := sweep(threshold, e); len(intervals) > 0 {
			result = append(result, source{key, intervals})
		}
	}
	slices.SortFunc(result, func(a, b source) int { return strings.Compare(a.key, b.key) })
	return Set{result}
}

// sweep returns the intervals over which the running sum of the edges is at least threshold.
// Edges at one point are summed before they are judged, so intervals that touch come out as one.
func sweep(threshold int, edges []edge) []interval {
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		default:
			return 0
		}
	})
	var (
		result []interval
		sum    int
		start  int64
		inside bool
	)
	for n := 0; n < len(edges); {
		at := edges[n].at
		for ; n < len(edges) && edges[n].at == at; n++ {
			sum += edges[n].change
		}
		switch enough := sum >= threshold; {
		case enough && !inside:
			start = at
		case !enough && inside:
			result = append(result, interval{start, at})
		}
		inside = sum >= threshold
	}
	return result
}
