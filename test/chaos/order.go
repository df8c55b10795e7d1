package chaos

import "slices"

// Faults are all kinds.
func Faults() []Fault {
	return slices.Concat(machineFaults(), networkFaults(), cloudFaults(), operatorFaults(), combinedFaults(),
		PowerFaults(), strangerFaults(), settingFaults(), peopleFaults(), laggingFaults())
}

// Order draws a number of faults: every kind in random order, then every kind again.
func (w *World) Order(count int, wanted func(Fault) bool) []Fault {
	kinds := slices.DeleteFunc(Faults(), func(f Fault) bool { return !wanted(f) })
	var order []Fault
	for len(order) < count && len(kinds) > 0 {
		w.random.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
		order = append(order, kinds...)
	}
	return order[:min(count, len(order))]
}
