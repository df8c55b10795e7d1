package mysql

// PromoteSpec says how the new primary commits.
type PromoteSpec struct {
	// SemiSync makes commits wait for W acknowledgements of members; W is at least 1 then.
	SemiSync bool
	W        int
}
