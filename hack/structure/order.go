package main

import (
	"maps"
	"slices"
)

// backwards counts the arrows of a graph, and those that run against the best order of its nodes that a greedy search finds
// (Eades, Lin and Smyth, 1993): what nobody uses comes first, what uses nobody last, and of the rest whoever uses most more than it is used.
func backwards(uses map[string]map[string]bool) (arrows, against int) {
	left := map[string]bool{}
	for node, others := range uses {
		left[node] = true
		arrows += len(others)
	}
	var first, last []string
	for len(left) > 0 {
		switch node := next(uses, left); {
		case out(uses, left, node) == 0:
			last = append(last, node)
			delete(left, node)
		default:
			first = append(first, node)
			delete(left, node)
		}
	}
	slices.Reverse(last)
	place := map[string]int{}
	for i, node := range append(first, last...) {
		place[node] = i
	}
	for node, others := range uses {
		for other := range others {
			if place[other] < place[node] {
				against++
			}
		}
	}
	return arrows, against
}

// next is the node that is placed next.
func next(uses map[string]map[string]bool, left map[string]bool) string {
	best, most := "", 0
	for _, node := range slices.Sorted(maps.Keys(left)) {
		o, i := out(uses, left, node), in(uses, left, node)
		if o == 0 || i == 0 {
			return node
		}
		if best == "" || o-i > most {
			best, most = node, o-i
		}
	}
	return best
}

func out(uses map[string]map[string]bool, left map[string]bool, node string) int {
	n := 0
	for other := range uses[node] {
		if left[other] {
			n++
		}
	}
	return n
}

func in(uses map[string]map[string]bool, left map[string]bool, node string) int {
	n := 0
	for other := range left {
		if uses[other][node] {
			n++
		}
	}
	return n
}
